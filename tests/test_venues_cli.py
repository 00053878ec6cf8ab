"""The verb venues check, from what it lists to a store that knows more."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from hindsight_fast.cli import app
from hindsight_fast.store import Store

VENUES = ["NuerIPS 2023", "NuerIPS 2024", "neurips", "ICML Workshop", "CoRR", "A Journal", None]


def run(*arguments: str | Path) -> Any:
    """Run a verb and return its JSON."""
    done = CliRunner().invoke(app, [*map(str, arguments), "--json"])
    assert done.exit_code == 0, (done.output, done.exception)
    return json.loads(done.stdout)


@pytest.fixture
def papers(tmp_path: Path) -> Path:
    path = tmp_path / "papers.jsonl"
    records = [
        {"title": f"Paper number {i}", "abstract": f"We do {i}.", "venue": venue, "year": 2023 + i}
        for i, venue in enumerate(VENUES)
    ]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def test_what_is_listed_can_be_added(papers: Path, tmp_path: Path) -> None:
    found = run("venues", "check", papers)
    assert found["counts"] == {
        "top": 1, "known": 0, "preprint": 1, "side_event": 1, "undecided": 0, "unmatched": 3,
        "none": 1, "unmatched_names": 3,
    }  # fmt: skip
    assert [row["venue"] for row in found["unmatched"]] == ["A Journal", *VENUES[:2]]
    assert [row["nearest"] for row in found["unmatched"]] == [None, "NeurIPS", "NeurIPS"]
    mine = tmp_path / "my.toml"
    mine.write_text('[[venue]]\nname = "NeurIPS"\naliases = ["NuerIPS"]\n')
    again = run("venues", "check", papers, "--venues", mine)
    assert (again["counts"]["top"], again["counts"]["unmatched"]) == (3, 1)
    run("build", papers, "--venues", mine, "--out", tmp_path / "store")
    assert Store.open(tmp_path / "store").papers(["venue"])["venue"].to_list().count("NeurIPS") == 3
    assert run("venues", "check", tmp_path / "store")["counts"] == again["counts"]
    shown = CliRunner().invoke(app, ["venues", "check", str(papers), "--limit", "1"])
    assert "A Journal" in shown.stdout and "NuerIPS" not in shown.stdout
    assert "3 of 7 records have one of 3 names" in shown.stdout


def test_a_venue_under_another_name(tmp_path: Path) -> None:
    path = tmp_path / "other.jsonl"
    path.write_text(json.dumps({"title": "A title", "conference": "ICML"}) + "\n")
    assert run("venues", "check", path, "--column", "conference")["counts"]["top"] == 1


def test_the_help_shows_a_file_that_works() -> None:
    help = CliRunner().invoke(app, ["venues", "check", "--help"]).stdout
    lines = [line.strip() for line in help.splitlines()]
    assert lines.count("[[venue]]               # one that is known: another alias") == 1
