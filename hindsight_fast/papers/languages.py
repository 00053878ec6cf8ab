"""Which language a record is written in, as its source says or its text shows."""

from typing import Final

import polars as pl

OTHER: Final = "other"

# ISO 639-1 codes by the three letters of ISO 639-2 and 639-3, and by English names.
_NAMES: Final = {
    "ar": "ara arabic", "bg": "bul bulgarian", "bn": "ben bengali", "ca": "cat catalan",
    "cs": "ces cze czech", "da": "dan danish", "de": "deu ger german", "el": "ell gre greek",
    "en": "eng english", "es": "spa spanish castilian", "et": "est estonian",
    "eu": "eus baq basque", "fa": "fas per persian farsi", "fi": "fin finnish",
    "fr": "fra fre french", "he": "heb hebrew", "hi": "hin hindi", "hr": "hrv croatian",
    "hu": "hun hungarian", "id": "ind indonesian", "it": "ita italian", "ja": "jpn japanese",
    "ko": "kor korean", "lt": "lit lithuanian", "lv": "lav latvian", "ms": "msa may malay",
    "nl": "nld dut dutch", "no": "nor nob nno norwegian nb nn", "pl": "pol polish",
    "pt": "por portuguese", "ro": "ron rum romanian", "ru": "rus russian", "sk": "slk slo slovak",
    "sl": "slv slovenian", "sr": "srp serbian", "sv": "swe swedish", "th": "tha thai",
    "tr": "tur turkish", "uk": "ukr ukrainian", "ur": "urd urdu", "vi": "vie vietnamese",
    "zh": "zho chi chinese mandarin",
}  # fmt: skip
_CODE_OF: Final = {name: code for code, names in _NAMES.items() for name in names.split()}
_UNSAID: Final = ("un", "mul", "und", "zxx")

# Words that no other language has: three of them in a text's beginning are enough.
_ENGLISH_ONLY: Final = r" (?:the|and|that|this|with|from|which) "
_BEGINNING: Final = 400
_COUNTED: Final = 800  # characters that are looked at where those do not tell
_ENGLISH: Final = (
    "a an and are as at be been between by can do does for from has have how in into is it its "
    "more not of on or our over than that the their these this to towards under using via we what "
    "when where which why with without"
)
# Words that make up most of any text of other languages, but for those that English has too and
# single letters.
_FOREIGN: Final = (
    "alla aos att auf aus avec az bei bir bu bằng ce cette che com como când că các cho của cu da "
    "dan dans das de dei del della den dengan der des det di dla được du een ein eine einer el els "
    "en es és est este esta et för für gli het hogy ikke il ile için im ini jako je jest jsou kan "
    "la las le les lo los là med met mit na nach nebo nel nicht nie não nous och oder og olan "
    "olarak oraz pada para pe pentru por pour pro på qui que se sich się są și sobre som sono sont "
    "sur su såsom till trong um una und une uno untuk van voor và với von wird wurde yang za zum "
    "zur że"
)


def language(given: pl.Series, titles: pl.Series, abstracts: pl.Series) -> pl.Series:
    """Name the language of each record.

    Parameters
    ----------
    given : polars.Series of String
        What the source says, ISO 639 codes mostly.
    titles, abstracts : polars.Series of String
        Cleaned; asked where the source says nothing, the title only where there is no abstract.

    Returns
    -------
    polars.Series of String
        Two-letter code; ``other`` where it clearly is not English; null where that can't be told.
    """
    said = _of_source(given)
    silent = said.is_null()
    if silent.any():
        rows = silent.arg_true()
        said = said.scatter(rows, _of_text(titles.gather(rows), abstracts.gather(rows)))
    return said.alias("language")


def _of_source(given: pl.Series) -> pl.Series:
    """The words of sources are few, so each spelling is looked up once."""
    spellings = given.unique().drop_nulls()
    codes = pl.Series([_look_up(one) for one in spellings], dtype=pl.String)
    return given.replace_strict(spellings, codes, default=None, return_dtype=pl.String)


def _look_up(word: str) -> str | None:
    first = word.strip().lower().replace("_", "-").partition("-")[0]
    if len(first) == 2 and first.isascii() and first.isalpha() and first not in _UNSAID:
        return _CODE_OF.get(first, first)
    return _CODE_OF.get(first)


def _of_text(titles: pl.Series, abstracts: pl.Series) -> pl.Series:
    found = pl.repeat(None, len(titles), dtype=pl.String, eager=True)
    for length in (_BEGINNING, _COUNTED):  # the first of them is enough for nearly all
        rows = found.is_null().arg_true()
        clear = abstracts.gather(rows).str.head(length).str.count_matches(_ENGLISH_ONLY) >= 3
        found = found.scatter(rows.filter(clear.fill_null(False)), "en")
    rows = found.is_null().arg_true()
    texts = abstracts.gather(rows)
    texts = texts.zip_with(texts.is_not_null(), titles.gather(rows))
    return found.scatter(rows, _by_counting(texts.str.head(_COUNTED)))


def _by_counting(texts: pl.Series) -> pl.Series:
    """By whose words there are more; by the script, where most letters are of another."""
    counts = pl.DataFrame(
        {
            "english": texts.str.count_matches(_words(_ENGLISH, "(?i)")),
            "foreign": texts.str.count_matches(_words(_FOREIGN, "")),
            "script": _is_of_another_script(texts),
        }
    )
    english, foreign = pl.col("english"), pl.col("foreign")
    other = pl.col("script") | ((foreign >= 2) & (foreign >= 2 * english))
    return counts.select(
        pl.when(other)
        .then(pl.lit(OTHER))
        .when((english >= 2) & (english >= 2 * foreign))
        .then(pl.lit("en"))
        .alias("language")
    )["language"]


def _is_of_another_script(texts: pl.Series) -> pl.Series:
    """Letters that are Latin are fewer than the others, and more than a symbol or two are."""
    wide = 4 * texts.str.len_bytes() > 5 * texts.str.len_chars()  # spares most texts the count
    rows = wide.fill_null(False).arg_true()
    mask = pl.repeat(False, len(texts), dtype=pl.Boolean, eager=True)
    if len(rows):
        few = texts.gather(rows)
        letters, latin = few.str.count_matches(r"\p{L}"), few.str.count_matches(r"\p{Latin}")
        mask = mask.scatter(rows, (letters >= 4) & (2 * latin < letters))
    return mask


def _words(words: str, flags: str) -> str:
    return rf"{flags}\b(?:{'|'.join(words.split())})\b"
