"""The command line as a person meets it: verbs, exit codes, output, interruptions."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from command_line import environment, run, start
from hindsight_fast.cli import console, inspection
from paper_tables import paper
from scoring_world import made_up_ideas
from tiny_model import tiny_model


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    tiny_model(folder / "models" / "tiny")
    return folder


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, home: Path) -> Path:
    """Papers, ideas, a store with vectors and a pool, made by the command line itself."""
    folder = tmp_path_factory.mktemp("place")
    papers = [paper(i, citations=i) for i in range(40)]
    write_lines(folder / "papers.jsonl", [*papers, {"abstract": "no title"}])
    write_lines(folder / "ideas.jsonl", made_up_ideas(30))
    for command in (
        "build papers.jsonl --out store",
        "embed store --encoder tiny",
        "pool store --out pool --cutoff 2023-06 --until 2025 --theta 0.5 --index",
    ):
        assert start(home, folder, command).returncode == 0
    return folder


def write_lines(path: Path, records: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(record, default=str) + "\n" for record in records))


def test_build_counts_add_up_and_say_so(home: Path, place: Path, tmp_path: Path) -> None:
    done = run(home, place, f"build papers.jsonl --out {tmp_path}/s --json")
    counts = json.loads(done.stdout)["counts"]
    assert done.returncode == 0
    assert counts["n_in"] == 41 == counts["n_papers"] + counts["n_merged"] + counts["n_rejects"]
    assert counts["n_rejects"] == 1
    again = run(home, place, f"build papers.jsonl --out {tmp_path}/s")
    assert "1 rejects (see" in again.stdout


def test_score_explain_info_verify(home: Path, place: Path) -> None:
    done = start(
        home, place, "score ideas.jsonl --pool pool --out s.parquet --matches m.csv --json"
    )
    assert done.returncode == 0, done.stderr
    summary, table = json.loads(done.stdout), pl.read_parquet(place / "s.parquet")
    assert summary["counts"]["ideas"] == 30 == table.height
    assert summary["signature"].startswith("HindSight recipe=paper T=2023-06-01 E=2025-12-31 K=20")
    assert {one["system"] for one in summary["systems"]} == {"a", "b"}
    assert json.loads((place / "s.parquet.manifest.json").read_text())["files"]
    matches = pl.read_csv(place / "m.csv")
    assert matches.group_by("idea_id").len()["len"].to_list() == [20] * 30

    explained = start(home, place, "explain ideas.jsonl --id i3 --pool pool")
    assert explained.returncode == 0
    right = table.filter(pl.col("idea_id") == "i3")["score"].item()
    assert right > 0 and f"Score {right:.4f}" in explained.stdout
    for what, kind in (("store", "store"), ("pool", "pool"), ("s.parquet", "score table")):
        facts = json.loads(run(home, place, f"info {what} --json").stdout)
        assert facts["kind"] == kind
        told = run(home, place, f"info {what}").stdout
        assert told.endswith(f"{what} is a {kind}\n")
        assert kind == "store" or facts["signature"] in told
        assert run(home, place, f"verify {what}").stdout == f"{what} is whole\n"


def test_the_same_command_again_does_nothing_and_another_is_refused(
    home: Path, place: Path
) -> None:
    first = run(home, place, "score ideas.jsonl --pool pool --out again.parquet --search index")
    assert "against the exact scan, on 30 sampled ideas: recall@K" in first.stdout
    made = (place / "again.parquet").stat().st_mtime_ns
    again = run(home, place, "score ideas.jsonl --pool pool --out again.parquet --search index")
    assert again.returncode == 0 and "nothing was done" in again.stdout
    assert (place / "again.parquet").stat().st_mtime_ns == made
    other = "score ideas.jsonl --pool pool --out again.parquet --k 3"
    refused = run(home, place, other)
    assert refused.returncode == 2 and "--overwrite" in refused.stderr
    assert run(home, place, f"{other} --overwrite").returncode == 0


def test_a_folder_of_shards_is_a_table_too(home: Path, place: Path, tmp_path: Path) -> None:
    out, matches = tmp_path / "scores", tmp_path / "matches"
    command = f"score {place}/ideas.jsonl --pool {place}/pool --out scores --matches matches"
    done = run(home, tmp_path, command)
    assert done.returncode == 0, done.stderr
    assert pl.scan_parquet(out / "*.parquet").collect().height == 30
    assert pl.scan_parquet(matches / "*.parquet").collect().height == 30 * 20
    for folder in ("scores", "matches"):
        told = run(home, tmp_path, f"info {folder}")
        assert told.stdout.endswith(f"{folder} is a score table\n"), told.stderr
        assert "HindSight recipe=paper" in told.stdout
        assert run(home, tmp_path, f"verify {folder}").stdout == f"{folder} is whole\n"
    again = run(home, tmp_path, command)
    assert "nothing was done" in again.stdout
    (out / "part-0000000.parquet").write_bytes(b"PAR1")
    assert run(home, tmp_path, "verify scores").returncode == 3
    assert run(home, tmp_path, "info scores").returncode == 3


def test_a_table_that_was_cut_is_made_again(home: Path, place: Path) -> None:
    command = "score ideas.jsonl --pool pool --out cut.jsonl"
    assert run(home, place, command).returncode == 0
    whole = (place / "cut.jsonl").read_bytes()
    (place / "cut.jsonl").write_bytes(whole[:100])
    assert run(home, place, "verify cut.jsonl").returncode == 3
    assert run(home, place, command).returncode == 0
    assert (place / "cut.jsonl").read_bytes() == whole


def test_ideas_and_papers_from_standard_input(home: Path, place: Path, tmp_path: Path) -> None:
    ideas, papers = (place / f"{name}.jsonl" for name in ("ideas", "papers"))
    table = pl.read_ndjson(ideas)
    for text in (ideas.read_text(), table.write_csv()):
        done = run(
            home, place, f"score - --pool pool --out {tmp_path}/s.csv --overwrite", input=text
        )
        assert done.returncode == 0, done.stderr
        assert pl.read_csv(tmp_path / "s.csv").height == 30
    for _ in range(2):
        done = start(home, place, f"build - --out {tmp_path}/store", input=papers.read_text())
        assert done.returncode == 0, done.stderr
    rejects = pl.read_parquet(tmp_path / "store" / "rejects.parquet")
    assert rejects["file"].to_list() == ["-"]


def test_a_folder_that_holds_the_store_is_built_again(home: Path, tmp_path: Path) -> None:
    write_lines(tmp_path / "papers.jsonl", [paper(i) for i in range(9)])
    for _ in range(2):
        done = run(home, tmp_path, "build . --out store --json")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["counts"]["n_in"] == 9


def test_brackets_in_names_are_no_patterns(home: Path, place: Path, tmp_path: Path) -> None:
    out = tmp_path / "runs[1]" / "s[2].parquet"
    done = run(home, place, f"score ideas.jsonl --pool pool --out {out}")
    assert done.returncode == 0, done.stderr
    assert pl.read_parquet(out, glob=False).height == 30


def test_names_and_places_that_can_not_be(home: Path, place: Path, tmp_path: Path) -> None:
    odd = tmp_path / os.fsdecode(b"o\xff.parquet")
    done = start(home, place, f"score ideas.jsonl --pool pool --out {odd}")
    assert done.returncode == 2 and "is not UTF-8" in done.stderr
    with Path("/dev/full").open("w") as full:
        done = start(home, place, "info pool --json", stdout=full)
    assert done.returncode == 5 and "Traceback" not in done.stderr


def test_a_package_that_refuses_another_gets_a_sentence(
    home: Path, place: Path, tmp_path: Path
) -> None:
    (tmp_path / "numba.py").write_text("raise ImportError('Numba needs NumPy 2.4 or less')")
    command = f"score ideas.jsonl --pool pool --out {tmp_path}/s.csv"
    stubbed = f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    done = subprocess.run(
        [sys.executable, "-m", "hindsight_fast", *command.split()],
        cwd=place,
        env=environment(home) | {"PYTHONPATH": stubbed},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 4
    assert "Numba needs NumPy 2.4 or less" in done.stderr and "Traceback" not in done.stderr


def test_build_says_what_it_did_not_understand(home: Path, tmp_path: Path) -> None:
    records = [{"title": f"Title {i}", "summary": "x", "citations": "many"} for i in range(5)]
    write_lines(tmp_path / "papers.jsonl", records)
    done = run(home, tmp_path, "build papers.jsonl --out store")
    assert done.returncode == 0, done.stderr
    assert "columns that mean nothing here: summary" in done.stdout
    assert "papers that have no abstract, and stay out of pools: 5" in done.stdout
    assert "5 of citations" in done.stdout


@pytest.mark.parametrize(
    ("command", "code", "sentence"),
    [
        ("score ideas.jsonl --pool store --out x.parquet", 3, "is a store, not a pool"),
        ("score ideas.jsonl --pool absent --out x.parquet", 3, "there is no folder absent"),
        ("score absent.jsonl --pool pool --out x.parquet", 3, "No such file"),
        ("score papers.jsonl --pool pool --out papers.jsonl", 2, "is the file of ideas itself"),
        ("score ideas.jsonl --pool pool --out x.txt", 2, "a table ends in"),
        ("score ideas.jsonl --pool pool --out store", 2, "store"),
        ("score ideas.jsonl --pool pool --out x.parquet --k 0", 2, "k = 0"),
        ("score ideas.jsonl --pool pool --out x.parquet --device cuda", 4, "CUDA"),
        ("score ideas.jsonl --pool pool --out x.parquet --encoder other", 4, "no model"),
        ("score ideas.jsonl --pool pool --out ideas.jsonl/x.csv", 5, "could not"),
        ("pool store --out p2 --cutoff june --until 2025", 2, "--cutoff june"),
        ("pool store --out p2 --cutoff 2023-13 --until 2025", 2, "--cutoff 2023-13"),
        ("pool store --out p2 --cutoff 2024 --until 2023", 2, "before it starts"),
        ("pool store --out p2 --cutoff 2023 --until 2024 --encoder x", 2, "no vectors of x"),
        ("embed pool --encoder tiny", 3, "is a pool, not a store"),
        ("embed store", 4, "there is no model 'specter2'"),
        ("build papers.jsonl --out ideas.jsonl", 2, "was not made by this program"),
        ("build papers.jsonl --out store --map title", 2, "expected ours=theirs"),
        ("build papers.jsonl --out x --map titel=t", 2, "did you mean 'title'"),
        ("build ideas.jsonl --out x --max-bad 2", 2, "--max-bad"),
        ("info ideas.jsonl", 3, "ideas.jsonl"),
        ("explain ideas.jsnl --pool pool", 3, "no such file"),
        ("pool store --out p2 --cutoff 2023-06 --until 2025 --k 5000", 2, "k = 5000"),
        ("models get nothing", 4, "no encoder is known as 'nothing'"),
        ("scor", 2, "score"),
    ],
)
def test_what_is_wrong_gets_a_sentence_and_its_code(
    home: Path, place: Path, command: str, code: int, sentence: str
) -> None:
    done = run(home, place, command)
    assert done.returncode == code, done.stderr
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
    assert not (place / "x.parquet").exists()


@pytest.mark.parametrize(
    ("command", "code", "sentence"),
    [
        ("scor", 2, "score"),
        ("pool store --out p2 --cutoff june --until 2025", 2, "--cutoff june"),
        ("verify ideas.jsonl", 3, "ideas.jsonl"),
        ("embed store", 4, "there is no model 'specter2'"),
        ("score ideas.jsonl --pool pool --out ideas.jsonl/x.csv", 5, "could not"),
    ],
)
def test_a_program_of_its_own_says_it_on_standard_error(
    home: Path, place: Path, command: str, code: int, sentence: str
) -> None:
    done = start(home, place, command)
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert sentence in done.stderr and "Traceback" not in done.stderr


@pytest.fixture(scope="module")
def many(place: Path) -> Path:
    """So many ideas that a job is still at work when a signal comes."""
    write_lines(place / "many.jsonl", made_up_ideas(10_000))
    return place / "many.jsonl"


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_interrupted_and_run_again(
    home: Path, place: Path, many: Path, tmp_path: Path, signum: int
) -> None:
    shutil.copy(many, tmp_path / "many.jsonl")
    arguments = ["score", str(tmp_path / "many.jsonl"), "--pool", "pool", "--limit", "10000"]
    arguments += ["--out", str(tmp_path / "s.parquet")]
    child = subprocess.Popen(
        [sys.executable, "-m", "hindsight_fast", *arguments],
        cwd=place,
        env=environment(home),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    work = tmp_path / ".s.parquet.work"
    deadline = time.monotonic() + 60
    while not _has_a_part(work / ".journal") and time.monotonic() < deadline:
        time.sleep(0.02)
    child.send_signal(signum)
    _, errors = child.communicate(timeout=60)
    assert child.returncode == (-signum if signum == signal.SIGKILL else 128 + signum), errors
    assert not (tmp_path / "s.parquet").exists() and work.exists()
    assert "Traceback" not in errors
    assert signum == signal.SIGKILL or "what is done is kept, but for the last 2,048" in errors
    refused = run(home, place, " ".join([*arguments, "--k", "3"]))
    assert refused.returncode == 2 and "(K: 20, now 3)" in refused.stderr
    again = run(home, place, " ".join([*arguments, "--json"]))
    assert again.returncode == 0 and json.loads(again.stdout)["resumed"] >= 2048
    other = tmp_path / "other.parquet"
    assert run(home, place, f"{' '.join(arguments[:-1])} {other}").returncode == 0
    assert (tmp_path / "s.parquet").read_bytes() == other.read_bytes()
    assert not work.exists()


def _has_a_part(journal: Path) -> bool:
    return journal.exists() and b'"part":' in journal.read_bytes()


def test_help_and_import_load_nothing_heavy() -> None:
    code = (
        "import sys; import hindsight_fast, hindsight_fast.cli; "
        "print([m for m in ('numba', 'onnxruntime', 'usearch', 'polars', 'ray', 'numpy', 'rich') "
        "if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "[]\n"


def test_every_verb_has_help_with_an_example(home: Path, place: Path) -> None:
    listed = start(home, place, "--help").stdout
    for verb in ("demo", "build", "embed", "pool", "score", "explain", "info", "verify", "doctor"):
        assert verb in listed
        assert f"Example: hindsight-fast {verb}" in run(home, place, f"{verb} --help").stdout


def test_doctor_and_models(home: Path, place: Path, tmp_path: Path) -> None:
    assert "ready" in start(home, place, "doctor").stdout
    bare = run(tmp_path / "nowhere", place, "doctor --json")
    assert bare.returncode == 4 and json.loads(bare.stdout)["ready"] is False
    names = [
        one["name"] for one in json.loads(run(home, place, "models list --json").stdout)["models"]
    ]
    assert names == ["specter2", "specter2-base", "specter2-adhoc", "minilm", "bge-small", "tiny"]
    assert run(home, place, "models verify tiny").stdout == (
        "tiny is whole; it has no golden vectors\n"
    )


def test_demo_on_a_tiny_model(home: Path, place: Path) -> None:
    done = run(home, place, "demo --encoder tiny")
    assert done.returncode == 0, done.stderr
    assert "illustration, not evidence" in done.stdout
    assert "reads-literature" in done.stdout and "topic-only" in done.stdout


def test_a_cache_saves_the_encoding_and_only_takes_its_own_folder(
    home: Path, place: Path, tmp_path: Path
) -> None:
    command = f"score ideas.jsonl --pool pool --cache {tmp_path}/cache --precision float32"
    for name, hits in (("one", 0), ("two", 30)):
        done = run(home, place, f"{command} --out {tmp_path}/{name}.csv")
        assert done.returncode == 0, done.stderr
        assert f"{hits} of 30 texts were there already, in {tmp_path}/cache" in done.stdout
        assert "tiny on cpu in float32" in done.stderr
    assert (tmp_path / "one.csv").read_bytes() == (tmp_path / "two.csv").read_bytes()
    foreign = run(home, place, f"{command} --cache store --out {tmp_path}/three.csv")
    assert foreign.returncode == 2 and "is no cache" in foreign.stderr


def test_an_error_that_a_signal_caused_is_an_interruption(
    home: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """usearch puts an error of its own in the place of the exit."""

    def interrupted(*_: object) -> None:
        with contextlib.suppress(SystemExit):
            console.stop(signal.SIGTERM)
        raise RuntimeError("Operation has been terminated")

    monkeypatch.setattr(console, "_stopped_by", None)
    monkeypatch.setattr(inspection, "_facts", interrupted)
    done = run(home, place, "info pool")
    assert done.returncode == 143 and "Traceback" not in done.stderr
