"""Languages: what the source says, else what the text shows. All texts are made up."""

import polars as pl
import pytest

from hindsight_fast.papers.languages import language

NOTHING = pl.Series([None], dtype=pl.String)

GIVEN = {
    "en": "en", "EN": "en", "en-US": "en", "en_GB": "en", "eng": "en", "English": "en",
    "zh-cn": "zh", "zh-TW": "zh", "chi": "zh", "German": "de", "ger": "de", "deu": "de", "pt": "pt",
    "nb": "no", "und": None, "un": None, "mul": None, "Klingon": None, "??": None,
}  # fmt: skip


@pytest.mark.parametrize(("given", "expected"), GIVEN.items())
def test_what_the_source_says(given: str, expected: str | None) -> None:
    assert language(pl.Series([given]), NOTHING, NOTHING).to_list() == [expected]


ENGLISH = (
    "We study how large models learn from few examples and show that the order of the data has a "
    "strong effect on what is learned."
)
OTHERS = {
    "German": "Wir untersuchen, wie große Modelle aus wenigen Beispielen lernen, und zeigen, dass "
    "die Reihenfolge der Daten einen starken Einfluss auf das Ergebnis hat.",
    "French": "Nous étudions comment les grands modèles apprennent avec peu d'exemples et nous "
    "montrons que l'ordre des données a un effet sur le résultat.",
    "Spanish": "Estudiamos cómo los modelos grandes aprenden de pocos ejemplos y mostramos que el "
    "orden de los datos tiene un efecto sobre el resultado.",
    "Portuguese": "Estudamos como os grandes modelos aprendem com poucos exemplos e mostramos que "
    "a ordem dos dados tem um efeito forte na qualidade das respostas.",
    "Italian": "Studiamo come i grandi modelli imparano da pochi esempi e mostriamo che l'ordine "
    "dei dati ha un effetto sulla qualità delle risposte e del risultato.",
    "Dutch": "Wij onderzoeken hoe grote modellen van weinig voorbeelden leren en laten zien dat de "
    "volgorde van het materiaal een sterk effect heeft.",
    "Polish": "Badamy, jak duże modele uczą się na niewielu przykładach, i pokazujemy, że "
    "kolejność danych jest ważna oraz że wpływa na wynik.",
    "Turkish": "Bu çalışmada büyük modellerin az örnek ile nasıl öğrendiğini inceliyoruz ve veri "
    "sırasının sonuç için önemli olan bir etken olarak ortaya çıktığını gösteriyoruz.",
    "Swedish": "Vi undersöker hur stora modeller lär sig av få exempel och visar att ordningen på "
    "data har stor betydelse för det som de lär sig.",
    "Indonesian": "Kami mempelajari cara model besar belajar dari sedikit contoh dan menunjukkan "
    "bahwa urutan data yang dipakai pada pelatihan ini penting untuk hasilnya.",
    "Vietnamese": "Chúng tôi nghiên cứu cách các mô hình lớn học từ ít ví dụ và cho thấy thứ tự "
    "của dữ liệu là quan trọng với kết quả.",
    "Romanian": "Studiem cum învață modelele mari din puține exemple și arătăm că ordinea datelor "
    "este importantă pentru rezultatul care se obține.",
    "Chinese": "我们研究大型模型如何从少量样本中学习，并证明数据的顺序会影响 Transformer 的结果。",
    "Japanese": "大規模モデルが少数の例からどのように学習するかを調べ、順序が重要だと示す。",
    "Korean": "우리는 대형 모델이 적은 예제로부터 어떻게 학습하는지 연구한다.",
    "Russian": "Мы изучаем, как большие модели учатся на немногих примерах (few-shot), и "
    "показываем, что порядок данных важен.",
    "Arabic": "ندرس كيف تتعلم النماذج الكبيرة من أمثلة قليلة ونبين أن ترتيب البيانات مهم.",
    "Hindi": "हम अध्ययन करते हैं कि बड़े मॉडल कम उदाहरणों से कैसे सीखते हैं।",
    "Greek": "Μελετάμε πώς τα μεγάλα μοντέλα μαθαίνουν από λίγα παραδείγματα.",
}


@pytest.mark.parametrize("name", OTHERS)
def test_texts_of_other_languages(name: str) -> None:
    titles = pl.Series(["Title", OTHERS[name]])
    abstracts = pl.Series([OTHERS[name], None])
    given = pl.Series([None, "und"], dtype=pl.String)
    assert language(given, titles, abstracts).to_list() == ["other", "other"]
    assert language(pl.Series(["xx", "en"]), titles, abstracts).to_list() == ["xx", "en"]


def test_english_texts() -> None:
    titles = ["Title", "Title", "Title", "On the Learning of Few Things", "Neural Widgets"]
    abstracts = [
        ENGLISH,
        ENGLISH.upper(),
        # One of another language is quoted, symbols are many.
        "The proverb “el que la sigue la consigue” is used to show that $α → β$ for the "
        "models of this paper, and we ask what they make of it.",
        None,
        None,
    ]
    found = language(
        pl.Series([None] * 5, dtype=pl.String), pl.Series(titles), pl.Series(abstracts)
    )
    assert found.to_list() == ["en", "en", "en", "en", None]
    assert found.name == "language"


def test_titles_that_tell_nothing_certain() -> None:
    titles = pl.Series(
        ["De Novo Design in the EN-DE Setting", "van Gogh and Nets", "", "x", "α β γ", "图"]
    )
    nothing = pl.Series([None] * 6, dtype=pl.String)
    assert language(nothing, titles, nothing).to_list() == ["en", None, None, None, None, None]


def test_no_rows() -> None:
    empty = pl.Series([], dtype=pl.String)
    assert language(empty, empty, empty).to_list() == []
