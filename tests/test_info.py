"""What things are, in words: `info`, on what earlier versions made too."""

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hindsight_fast.cli import app
from hindsight_fast.data_report import in_words

GOLDEN = Path(__file__).resolve().parent / "golden"


def info(path: Path, *options: str) -> str:
    done = CliRunner().invoke(app, ["info", str(path), *options])
    assert done.exit_code == 0, done.output
    return done.stdout


KINDS = {
    "format-1/store": ("store", "6 papers, those since 2023-01-01, 8 dimensions, float32"),
    "format-2/store": ("store", "records left out by a condition"),
    "format-1/store/vectors/tiny": ("vectors", "encoded here  4"),
    "format-1/pool": ("pool", "2023-06-01 to 2023-12-31, ideas from before 2023-06-01"),
    "format-1/model": ("model", "dimensions   8"),
}


@pytest.mark.parametrize("name", KINDS)
def test_a_person_reads_words_and_a_program_keys(name: str) -> None:
    kind, said = KINDS[name]
    told = info(GOLDEN / name)
    assert said in told
    assert told.endswith(f"{GOLDEN / name} {'are' if kind == 'vectors' else 'is a'} {kind}\n")
    facts = json.loads(info(GOLDEN / name, "--json"))
    assert facts["kind"] == kind
    keys = {key for key in facts if "_" in key} | {"n_papers", "n_in", "text_version"}
    assert not keys & set(re.findall(r"\b\w+\b", told.replace(str(GOLDEN), "")))


def test_counts_have_words_in_an_order_to_read_them_in() -> None:
    counts = {"too_many_alike": 0, "s2_papers_deleted": 4, "n_papers": 2, "malformed_date": 1}
    told = in_words(counts | {"n_dated_earlier": 3, "n_in": 9})
    assert list(told.items()) == [
        ("records read", 9),
        ("papers", 2),
        ("papers that files of dates dated earlier, or at all", 3),
        ("records alike, too many to be one paper", 0),
        ("values of date not understood", 1),
        ("Semantic Scholar: papers deleted", 4),
    ]
