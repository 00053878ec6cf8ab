"""Made-up records as services give them away, of real size and as hard to compress.

Some papers come twice, under another id; a few lines are cut, in files of their own (polars, as a
rival, reads none of a file that has such a line).
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

BLOCK = 50_000  # records made at a time
TWICE = 200  # one paper in so many comes twice
DAMAGED, CUT = 100, 10_000  # one line in so many is in a file with damage, and one is cut
SHARDS = 8
AUTHORS = [f"name{i}" for i in range(8)]
N_SENTENCES, N_PHRASES, N_NAMES = 1 << 18, 1 << 16, 1 << 14

TEXT, NUMBER = pl.String(), pl.Int64()
SCHEMAS: dict[str, dict[str, pl.DataType]] = {
    "arxiv": {
        **dict.fromkeys(("id", "submitter", "authors", "title", "comments", "journal-ref"), TEXT),
        **dict.fromkeys(("doi", "report-no", "categories", "license", "abstract"), TEXT),
        "versions": pl.List(pl.Struct({"version": TEXT, "created": TEXT})),
        "update_date": TEXT,
        "authors_parsed": pl.List(pl.List(TEXT)),
    },
    "papers": {
        **dict.fromkeys(("url", "title", "venue", "publicationdate", "updated"), TEXT),
        **dict.fromkeys(("corpusid", "year", "citationcount", "referencecount"), NUMBER),
        "externalids": pl.Struct(dict.fromkeys(("DOI", "ArXiv", "CorpusId"), TEXT)),
        "authors": pl.List(pl.Struct({"authorId": TEXT, "name": TEXT})),
        "s2fieldsofstudy": pl.List(pl.Struct({"category": TEXT, "source": TEXT})),
        "publicationtypes": pl.List(TEXT),
        "journal": pl.Struct(dict.fromkeys(("name", "pages", "volume"), TEXT)),
    },
    "abstracts": {"corpusid": NUMBER, "abstract": TEXT, "updated": TEXT},
}
"""What polars is told of each kind of file."""


class Made(NamedTuple):
    """Files of records, and what is to become of them.

    Attributes
    ----------
    source
        The folder that holds all files.
    whole
        The files without damage, with the name of each one's schema.
    lines, records
        Lines of all files; those that tell of a paper's title.
    cut, twice
        Records that are cut, and that are a paper once more.
    """

    source: Path
    whole: dict[Path, str]
    lines: int
    records: int
    cut: int
    twice: int


class Words:
    """Texts as long as real ones, and about as hard to compress."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        syllables = [a + b for a in "bcdfglmnprstv" for b in ("a", "e", "i", "o", "u", "er", "on")]
        small = "the of and in a to we is for with that on by are this as our from an which be it"
        words = small.split() + ["".join(rng.choice(syllables, 1 + i % 4)) for i in range(20_000)]
        weights = 1 / (np.arange(len(words)) + 2.7)  # as those of natural languages
        drawn = rng.choice(len(words), 1 << 22, p=weights / weights.sum())
        self._drawn, self._at = np.array(words, object)[drawn], 0
        self.sentences = pl.Series([self._sentence(i) for i in range(N_SENTENCES)])
        self.phrases = pl.Series([self._take(4).capitalize() for _ in range(N_PHRASES)])
        self.names = pl.Series(["".join(rng.choice(syllables, 3)) for _ in range(N_NAMES)])
        self.names = self.names.str.to_titlecase()

    def _take(self, n: int) -> str:
        start, self._at = self._at, (self._at + n) % (len(self._drawn) - 100)
        return " ".join(self._drawn[start : start + n])

    def _sentence(self, number: int) -> str:
        """About 110 bytes of JSON, with a break of the line; some with formulas and accents."""
        formula = f" $\\\\alpha_{{{number % 97}}}$" if number % 9 == 0 else ""
        accent = " na\\u00efve" if number % 31 == 0 else ""
        first, second = self._take(10).capitalize(), self._take(9)
        return f"{first}{formula}\\n{second}{accent}."


def blocks(n: int, words: Words) -> Iterator[tuple[pl.DataFrame, np.random.Generator]]:
    """What all shapes share: number, title, abstract, up to 8 authors, of which twin a record is.

    A twin is the record before it once more, under another id.
    """
    for low in range(0, n, BLOCK):
        rng = np.random.default_rng([1, low])
        m = min(BLOCK, n - low)
        number = np.arange(low, low + m)
        twin = (number % TWICE == TWICE - 1) & (np.arange(m) > 0)
        of = np.arange(m) - twin

        title = pl.concat_str(drawn(words.phrases, 2, 2, of, rng), separator=" ")
        abstract = pl.concat_str(
            drawn(words.sentences, 10, 4, of, rng), separator=" ", ignore_nulls=True
        )
        names = dict(zip(AUTHORS, drawn(words.names, 8, 1, of, rng), strict=True))
        frame = pl.select(title=title, abstract=abstract)
        yield frame.with_columns(number=number, of=number - twin, **names), rng


def drawn(
    pool: pl.Series, most: int, least: int, of: NDArray[np.int64], rng: np.random.Generator
) -> list[pl.Series]:
    """Columns of draws, those of record `of[i]` in row i; null from where it has no more."""
    picks = rng.integers(0, len(pool), (most, len(of)), np.int32)
    counts = rng.integers(least, most + 1, len(of))
    return [
        pool.gather(pl.Series(picks[i][of])).set(pl.Series(i >= counts[of]), None)
        for i in range(most)
    ]


def of_authors(made: Callable[[pl.Expr], pl.Expr], separator: str) -> pl.Expr:
    """Something of each author of a record, one after the other."""
    each = [pl.when(pl.col(name).is_not_null()).then(made(pl.col(name))) for name in AUTHORS]
    return pl.concat_str(each, separator=separator, ignore_nulls=True)


def filled(template: str, *values: pl.Expr | str) -> pl.Expr:
    """The template with a value (or the column of that name) in the place of each @."""
    texts = template.split("@")
    parts = [pl.lit(texts[0])]
    for value, text in zip(values, texts[1:], strict=True):
        parts += [pl.col(value) if isinstance(value, str) else value, pl.lit(text)]
    return pl.concat_str(parts)


def initial(name: pl.Expr) -> pl.Expr:
    return name.str.slice(-1).str.to_uppercase() + "."


def arxiv(folder: Path, n: int) -> Made:
    """Write one file in the shape of arXiv's metadata snapshot, and one with damage."""
    source = folder / "snapshot"
    source.mkdir()
    path = source / "arxiv-metadata-oai-snapshot.json"
    first = pl.date(2007, 4, 1) + pl.duration(days=pl.col("number") * 6500 // n)
    stamp = "%a, %-d %b %Y 17:%M:%S GMT"

    def created(days: int) -> pl.Expr:
        seconds = pl.col("number") % 3600
        moment = (first + pl.duration(days=days)).cast(pl.Datetime) + pl.duration(seconds=seconds)
        return moment.dt.strftime(stamp)

    serial = pl.col("number") % 10_000
    n_digits = pl.when(first < pl.date(2015, 1, 1)).then(4).otherwise(5)
    doi = filled('"10.1103/PhysRevX.@.@"', pl.col("of") % 97, pl.col("of"))
    has_doi = (pl.col("of") % 9 < 4) | (pl.col("of") % TWICE == TWICE - 2)
    second = filled(',{"version":"v2","created":"@"}', created(90))
    line = filled(
        '{"id":"@.@","submitter":"@","authors":"@","title":"@","comments":@,"journal-ref":@,'
        '"doi":@,"report-no":null,"categories":"@","license":@,"abstract":"  @\\n",'
        '"versions":[{"version":"v1","created":"@"}@],"update_date":"@","authors_parsed":[@]}',
        first.dt.strftime("%y%m"),
        serial.cast(pl.String).str.zfill(n_digits),
        initial(pl.col("name0")) + " " + pl.col("name0"),
        of_authors(lambda name: initial(name) + " " + name, ", "),
        "title",
        pl.when(pl.col("number") % 4 > 0)
        .then(filled('"@ pages, @ figures, and what else is said"', serial % 40, serial % 9))
        .otherwise(pl.lit("null")),
        pl.when(pl.col("of") % 3 == 0)
        .then(filled('"Phys.Rev.D@:@,@"', serial % 90, serial, first.dt.year()))
        .otherwise(pl.lit("null")),
        pl.when(has_doi).then(doi).otherwise(pl.lit("null")),
        pl.when(pl.col("number") % 2 == 0).then(pl.lit("cs.CL cs.LG")).otherwise(pl.lit("hep-ph")),
        pl.when(pl.col("number") % 2 == 0)
        .then(pl.lit('"http://arxiv.org/licenses/nonexclusive-distrib/1.0/"'))
        .otherwise(pl.lit("null")),
        "abstract",
        created(0),
        pl.when(pl.col("number") % 5 < 3).then(second).otherwise(pl.lit("")),
        (first + pl.duration(days=90)).cast(pl.String),
        of_authors(lambda name: filled('["@","@",""]', name, initial(name)), ","),
    )
    words, cut, twice = Words(), 0, 0
    with path.open("wb") as whole, (source / "damaged.json").open("wb") as damaged:
        for frame, _ in blocks(n, words):
            cut += parted(frame.select(line=line, number="number"), whole, damaged)
            twice += int((frame["of"] != frame["number"]).sum())
    return Made(source, {path: "arxiv"}, n, n, cut, twice)


def parted(lines: pl.DataFrame, whole: BinaryIO, damaged: BinaryIO) -> int:
    """Write lines, those with a number for damage into another file; returns how many are cut."""
    apart, bad = pl.col("number") % DAMAGED == 3, pl.col("number") % CUT == 3
    cut = pl.when(bad).then(pl.col("line").str.slice(0, 400)).otherwise("line")
    write(lines.filter(~apart).select("line"), whole)
    write(lines.filter(apart).select(cut), damaged)
    return int(lines.select(bad.sum()).item())


def write(lines: pl.DataFrame, file: BinaryIO) -> None:
    lines.write_csv(file, include_header=False, quote_style="never")


def semantic_scholar(folder: Path, n: int) -> Made:
    """Write shards in the shape of Semantic Scholar's bulk papers and abstracts."""
    source = folder / "release"
    papers, abstracts = (
        [source / kind / f"{kind}-part{i}.jsonl" for i in range(SHARDS)]
        for kind in ("papers", "abstracts")
    )
    for kind in ("papers", "abstracts"):
        (source / kind).mkdir(parents=True)
    number, of = pl.col("number"), pl.col("of")
    corpus_id = number * 1_640_531_527 % (1 << 31)  # odd: no two are the same
    year = 1970 + number * 55 // n
    has_doi = (of % 9 < 4) | (of % TWICE == TWICE - 2)
    doi = pl.when(has_doi).then(filled('"10.1234/x.@"', of)).otherwise(pl.lit("null"))
    field = '[{"category":"Computer Science","source":"s2-fos-model"}]'
    updated = '"updated":"2024-01-27T02:09:51.713Z"}'
    paper = filled(
        '{"corpusid":@,"externalids":{"ACL":null,"DBLP":null,"ArXiv":null,"MAG":"@","CorpusId":'
        '"@","PubMed":null,"DOI":@,"PubMedCentral":null},"url":"https://www.semanticscholar.org/'
        'paper/@","title":"@","authors":[@],"venue":@,"publicationvenueid":null,"year":@,'
        '"referencecount":@,"citationcount":@,"influentialcitationcount":0,"isopenaccess":false,'
        '"s2fieldsofstudy":@,"publicationtypes":null,"publicationdate":@,"journal":{"name":"",'
        '"pages":"@-@","volume":""},@',
        corpus_id,
        number + 2_000_000_000,
        corpus_id,
        doi,
        (number * 2_654_435_761 % (1 << 40)).cast(pl.String).str.zfill(40),
        "title",
        of_authors(lambda name: filled('{"authorId":"@","name":"@ @"}', name.hash() % 10**8,
                                          initial(name), name), ","),
        pl.when(number % 5 == 0).then(pl.lit('"Neural Information Processing Systems"'))
        .otherwise(pl.lit('""')),
        year,
        number % 60,
        number * 7919 % 1009 // 8,
        pl.when(number % 3 == 0).then(pl.lit("null")).otherwise(pl.lit(field)),
        pl.when(number % 3 == 0)
        .then(filled('"@-@-@"', year, (number % 12 + 1).cast(pl.String).str.zfill(2),
                        (number % 28 + 1).cast(pl.String).str.zfill(2)))
        .otherwise(pl.lit("null")),
        number % 900,
        number % 900 + 9,
        pl.lit(updated),
    )  # fmt: skip
    abstract = filled(
        '{"corpusid":@,"openaccessinfo":{"externalids":{"MAG":"@","ACL":null,"DOI":@,'
        '"PubMedCentral":null,"ArXiv":null},"license":null,"url":null,"status":null},'
        '"abstract":"@",@',
        corpus_id,
        number + 2_000_000_000,
        doi,
        "abstract",
        pl.lit(updated),
    )
    words, cut, twice, lines = Words(), 0, 0, n
    with ExitStack() as stack:
        damaged = stack.enter_context((source / "papers" / "papers-damaged.jsonl").open("wb"))
        paper_files, abstract_files = (
            [stack.enter_context(path.open("wb")) for path in paths]
            for paths in (papers, abstracts)
        )
        for frame, rng in blocks(n, words):
            twice += int((frame["of"] != frame["number"]).sum())
            made = frame.select(line=paper, number="number")
            told = frame.filter(pl.Series(rng.random(frame.height) < 0.7)).select(abstract)
            told = told.sample(fraction=1, shuffle=True, seed=1)
            lines += told.height
            for i in range(SHARDS):
                cut += parted(made.gather_every(SHARDS, i), paper_files[i], damaged)
                write(told.gather_every(SHARDS, i), abstract_files[i])
    whole = dict.fromkeys(papers, "papers") | dict.fromkeys(abstracts, "abstracts")
    return Made(source, whole, lines, n, cut, twice)
