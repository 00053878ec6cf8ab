"""The verb build with all that it takes besides sources, and pools of what it made."""

import json
import os
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from command_line import run
from hindsight_fast.store import Store
from tiny_model import tiny_model

TEXT = "We show in some detail what can be done about it, and what can not."


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    tiny_model(folder / "models" / "tiny")
    return folder


def write(path: Path, records: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


def summary(home: Path, folder: Path, command: str) -> dict[str, Any]:
    done = run(home, folder, command + " --json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def papers(folder: Path) -> pl.DataFrame:
    return Store.open(folder).papers()


def test_dates_conditions_and_topics(home: Path, tmp_path: Path) -> None:
    listed = [
        {"id": "early", "title": "Public before it was listed", "authors": "Ada Bee"},
        {"id": "late", "title": "Public when it was listed", "authors": "Cy Dee"},
        {"id": "other", "title": "Of another venue", "authors": "Eve Fox", "venue": "ACL 2023"},
        {"id": "graph", "title": "Graph neural networks again", "authors": "Gil Hay"},
    ]
    write(
        tmp_path / "listed.jsonl",
        [{"abstract": TEXT, "venue": "NeurIPS 2023", "year": 2023} | record for record in listed],
    )
    arxiv = {
        "id": "2211.00012",
        "title": "Public before\n  it was listed",
        "abstract": TEXT,
        "authors": "Ada Bee",
        "authors_parsed": [["Bee", "Ada", ""]],
        "versions": [{"version": "v1", "created": "Mon, 7 Nov 2022 19:18:42 GMT"}],
        "update_date": "2022-11-08",
        "categories": "cs.LG",
        "comments": None, "journal-ref": None, "doi": None, "license": None, "report-no": None,
        "submitter": "Ada Bee",
    }  # fmt: skip
    write(tmp_path / "arxiv.json", [arxiv])
    (tmp_path / "topics.toml").write_text(
        '[[topic]]\nname = "graphs"\nphrases = ["graph neural network"]\n'
    )
    (tmp_path / "venues.toml").write_text('[[venue]]\nname = "ACL"\naliases = ["ACL Extra"]\n')
    command = (
        "build listed.jsonl --dates arxiv.json --topics topics.toml --venues venues.toml "
        "--where venue='NeurIPS' --out store"
    )
    counts = summary(home, tmp_path, command)["counts"]
    assert (counts["n_in"], counts["n_papers"], counts["n_left_out"]) == (4, 3, 1)
    assert (counts["n_dates"], counts["n_dated_earlier"]) == (1, 1)
    told = run(home, tmp_path, command.replace("--out store", "--out again")).stdout
    assert "papers that they date earlier, or at all: 1" in told
    kept = json.loads(run(home, tmp_path, "info store --json").stdout)["counts"]
    assert kept["n_dated_earlier"] == 1
    table = papers(tmp_path / "store")
    assert dict(table.select("id", pl.col("date").cast(pl.String)).iter_rows()) == {
        "early": "2022-11-07", "late": "2023-12-01", "graph": "2023-12-01"
    }  # fmt: skip
    assert table.filter(pl.col("id") == "early")["date_origin"].item() == "first_version"
    assert dict(table.select("id", "topics").iter_rows())["graph"] == ["graphs"]
    assert run(home, tmp_path, "verify store").returncode == 0
    summary(home, tmp_path, "embed store --encoder tiny")
    pool = "pool store --out pool --cutoff 2023-06 --until 2025-12"
    made = run(home, tmp_path, pool)
    assert "1 listed with a year of the window, but public before" in made.stdout
    assert "warning: 2 papers are dated by a venue or a year alone" in made.stdout
    of_topic = summary(home, tmp_path, pool.replace("pool --cutoff", "one --topic graphs --cutoff"))
    assert of_topic["n_papers"] == 1 and "topics='graphs'" in of_topic["signature"]
    missing = run(home, tmp_path, "build listed.jsonl --topic graphs --out x")
    assert missing.returncode == 2 and "no topic 'graphs'" in missing.stderr
    wrong = run(home, tmp_path, "build listed.jsonl --where jear>2000 --out x")
    assert wrong.returncode == 2 and "did you mean year?" in wrong.stderr


def of_s2(number: int, **facts: Any) -> dict[str, Any]:
    paper: dict[str, Any] = {
        "corpusid": number,
        "externalids": {"CorpusId": str(number), "ArXiv": None, "DOI": None, "ACL": None},
        "url": None, "title": f"Paper number {number} about something", "authors": [],
        "venue": "ICLR", "publicationvenueid": None, "year": 2024, "referencecount": 0,
        "citationcount": number, "influentialcitationcount": 0, "isopenaccess": False,
        "s2fieldsofstudy": None, "publicationtypes": None, "publicationdate": "2024-05-01",
        "journal": None, "updated": "2024-06-01T00:00:00Z",
    }  # fmt: skip
    return paper | facts


def of_abstracts(number: int) -> dict[str, Any]:
    return {
        "corpusid": number, "abstract": f"{TEXT} It is the one of {number}.",
        "openaccessinfo": {"externalids": {}, "license": None, "url": None, "status": None},
        "updated": "2024-06-01T00:00:00Z",
    }  # fmt: skip


def test_a_store_grows_by_a_diff_between_releases(home: Path, tmp_path: Path) -> None:
    write(tmp_path / "release" / "papers.jsonl", [of_s2(number) for number in range(1, 6)])
    write(tmp_path / "release" / "texts.jsonl", [of_abstracts(number) for number in range(1, 6)])
    summary(home, tmp_path, "build release --out old --encoder tiny")
    write(tmp_path / "new.jsonl", [of_s2(2, citationcount=99), of_s2(7)])
    write(tmp_path / "text.jsonl", [of_abstracts(7)])
    write(tmp_path / "papers-deletes" / "a.jsonl", [{"corpusid": 3}])
    command = (
        "build --reuse old --updates new.jsonl --updates text.jsonl --deletes papers-deletes "
        "--out new"
    )
    counts = summary(home, tmp_path, command)["counts"]
    assert counts["n_in"] == counts["n_papers"] + counts["n_merged"] == 6
    rows = dict(papers(tmp_path / "new").select("id", "citations").iter_rows())
    assert rows == {f"CorpusId:{n}": {2: 99}.get(n, n) for n in (1, 2, 4, 5, 7)}
    assert run(home, tmp_path, "verify new").returncode == 0
    encoded = summary(home, tmp_path, "embed new --encoder tiny")
    assert encoded["n_encoded"] == 1
    scratch = summary(home, tmp_path, "build --reuse new --out again --encoder tiny")
    assert scratch["counts"]["n_papers"] == 5
    one, two = (Store.open(tmp_path / name).vectors().array for name in ("new", "again"))
    assert (one == two).all()
    without = run(home, tmp_path, "build release --updates new.jsonl --out x")
    assert without.returncode == 2 and "--reuse" in without.stderr


def test_what_is_there_is_told_before_the_work(home: Path, tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", [{"title": "One", "abstract": TEXT}])
    write(tmp_path / "b.jsonl", [{"title": "Two", "abstract": TEXT}])
    summary(home, tmp_path, "build a.jsonl --out store")
    again = run(home, tmp_path, "build a.jsonl --out store")
    assert again.returncode == 0 and "is there already" in again.stderr
    other = run(home, tmp_path, "build b.jsonl --out store")
    assert other.returncode == 2 and "--overwrite" in other.stderr
    (tmp_path / "file").write_text("x")
    for place in ("file", "a.jsonl"):
        refused = run(home, tmp_path, f"build b.jsonl --out {place}")
        assert refused.returncode in (2, 5), refused.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "a.jsonl", "b.jsonl", "file", "store"
    ]  # fmt: skip


def test_names_and_files_that_are_none(home: Path, tmp_path: Path) -> None:
    """A place without a name, names that are not UTF-8, pipes, and text that commands terminals."""
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    here.mkdir()
    write(tmp_path / "a.jsonl", [{"id": "a", "title": "One paper", "abstract": TEXT}])
    assert run(home, here, "build ../a.jsonl --out .").returncode == 0
    assert papers(here)["id"].to_list() == ["a"]
    (tmp_path / "link").symlink_to(elsewhere)
    assert run(home, tmp_path, "build a.jsonl --out link").returncode == 0
    assert papers(elsewhere)["id"].to_list() == ["a"]

    os.mkfifo(tmp_path / "pipe.jsonl")
    refused = run(home, tmp_path, "build pipe.jsonl --out store")
    assert refused.returncode == 3
    assert "is a pipe or a device" in refused.stderr
    (tmp_path / "b.jsonl").write_bytes(b"\x1b]0;title\x07\x1b[31m no JSON\n")
    refused = run(home, tmp_path, "build b.jsonl --out store")
    assert refused.returncode == 3
    assert refused.stderr.count("\n") == 2
    assert refused.stderr.replace("\n", "").isprintable()
