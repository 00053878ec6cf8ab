"""The verbs that collect, as a person meets them: what they say, stop at and go on from."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from api_server import Api, Reply, serving
from hindsight_fast.cli import app
from hindsight_fast.errors import UsageError

KEY = "a-secret-key-0123456789"
DATES = ["--cutoff", "2023-06", "--until", "2025-12", "--rate", "2000"]


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Generator[Api]:
    """The services, which this process and its children ask instead of the real ones."""
    with serving() as one:
        monkeypatch.delenv("S2_API_KEY", raising=False)
        monkeypatch.delenv("SEMANTIC_SCHOLAR_API_KEY", raising=False)
        monkeypatch.setenv("OPENALEX_API_KEY", KEY)
        monkeypatch.setenv("HINDSIGHT_S2_URL", one.url)
        monkeypatch.setenv("HINDSIGHT_OPENALEX_URL", one.url)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        yield one


def command(out: Path, *more: str) -> list[str]:
    return ["collect", *more, *DATES, "--out", str(out)]


def test_what_is_said(api: Api, tmp_path: Path) -> None:
    out = tmp_path / "found"
    asked = command(out, "openalex", "--topic", "Reasoning", "--topic", "graph learning")
    done = CliRunner().invoke(app, asked)
    assert done.exit_code == 0, done.output
    assert done.stderr.splitlines()[:4] == [
        "OpenAlex: 2 queries, papers published 2023-06-01 to 2025-12-31; billed 0.001 USD for "
        "each page of 100, at most 1.000 USD (--max-spend)",
        "  reasoning: 12 papers",
        "  graph learning: 12 papers",
        "to come: 2 pages, at least 0 s; about 0.002 USD more (0.002 USD spent, the key has "
        "0.998 USD left)",
    ]
    last = done.stdout.splitlines()[-1]
    assert last.startswith(f"collected {out}: 24 records of 12 papers on 6 pages, 0.006 USD; ")
    assert last.endswith(f"Next: hindsight-fast build {out} --out STORE")
    again = CliRunner().invoke(app, asked)
    assert again.stdout == (
        f"{out} holds just this already: 24 records of 12 papers; nothing was asked\n"
    )
    assert KEY not in done.output + again.output
    whole = CliRunner().invoke(app, ["verify", str(out)])
    assert whole.stdout == f"{out} is whole\n"
    known = CliRunner().invoke(app, ["info", str(out)])
    assert known.stdout.endswith(f"{out} is a collection\n")
    names = CliRunner().invoke(app, ["venues", "check", str(out), "--json"])
    assert names.exit_code == 0 and sum(json.loads(names.stdout)["counts"].values()) >= 24


def test_own_topics_and_own_query(api: Api, tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text('[[topic]]\nname = "Proteins"\nphrases = ["protein folding"]\n')
    summary = json.loads(
        CliRunner()
        .invoke(app, command(tmp_path / "a", "s2", "--topics", str(mine), "--json"))
        .stdout
    )
    assert summary["queries"][0]["query"] == '"protein folding"'
    assert (summary["already_there"], summary["spent_usd"], summary["n_ids"]) == (False, None, 12)
    text = 'deep -"sea" | (fish~2)'
    CliRunner().invoke(app, command(tmp_path / "b", "s2", "--query", text))
    assert api.asked[-1].params["query"] == text


def test_ten_topics_are_the_default(api: Api, tmp_path: Path) -> None:
    api.matches = 1
    done = CliRunner().invoke(app, command(tmp_path / "found", "s2"))
    assert len(api.asked) == 10
    assert done.stderr.splitlines()[0].endswith("31; free of charge")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--query", "a", "--topic", "reasoning"], "one or the other"),
        (["--query", " "], "--query is empty"),
        (["--topic", "alchemy"], "no topic 'alchemy'; there are: large language models, "),
        (["--query", "a", "--until", "2020"], "--until 2020 is before"),
        (["--query", "a", "--rate", "0"], "0.0 requests a second"),
        (["--query", "a", "--rate", "nan"], "nan requests a second"),
    ],
)
def test_what_makes_no_sense(more: list[str], message: str, api: Api, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, [*command(tmp_path / "found", "s2"), *more])
    assert isinstance(done.exception, UsageError)
    assert message in str(done.exception)
    assert not api.asked


def test_a_cap_that_is_no_number_stops_all(api: Api, tmp_path: Path) -> None:
    asked = command(tmp_path / "found", "openalex", "--query", "a", "--max-spend", "nan")
    assert CliRunner().invoke(app, asked).exit_code == 2
    assert not api.asked


def test_doubts_are_told(api: Api, tmp_path: Path) -> None:
    totals = iter([400, 12, 12])
    api.change = lambda body: body.update(total=next(totals))
    done = CliRunner().invoke(app, command(tmp_path / "a", "s2", "--query", "a"))
    assert "warning: 'query' was announced with 12 and later with 400 papers" in done.stderr
    api.change = lambda body: body.update(total=13)
    done = CliRunner().invoke(app, command(tmp_path / "b", "s2", "--query", "a"))
    assert "note: 'query' has 12 of 13 announced papers" in done.stderr


def test_stopped_and_gone_on_with(api: Api, tmp_path: Path) -> None:
    """Ctrl-C in the middle, then the cap, then the end; no page is asked for twice."""
    out = tmp_path / "found"
    api.replies = [None, Reply(stall=20)]
    program = [sys.executable, "-m", "hindsight_fast"]
    asked = command(out, "openalex", "--query", "a")
    job = subprocess.Popen([*program, *asked], stderr=subprocess.PIPE, text=True)
    while len(api.asked) < 2:
        assert job.poll() is None
        time.sleep(0.01)
    time.sleep(0.1)
    job.send_signal(signal.SIGINT)
    said = job.communicate(timeout=30)[1]
    assert job.returncode == 130
    assert "what is done is kept, but for the page under way; run the same command" in said
    assert not out.exists()
    run = subprocess.run(
        [*program, *asked, "--max-spend", "0.002"], stderr=subprocess.PIPE, text=True
    )
    assert run.returncode == 6
    assert "--max-spend allows 0.002 USD" in run.stderr.splitlines()[-1]
    assert len(api.asked) == 2
    done = CliRunner().invoke(app, [*asked, "--json"])
    # The page that was on its way may have been billed.
    assert json.loads(done.stdout)["spent_usd"] == 0.004
    assert len(api.asked) == 4
