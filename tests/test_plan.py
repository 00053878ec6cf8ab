"""What `plan` foretells: bytes against real artefacts, what fits and what does not."""

import datetime as dt
import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from command_line import run
from hindsight_fast import config, projection
from hindsight_fast.errors import EncoderError, StorageError, UsageError
from hindsight_fast.index import IndexConfig
from hindsight_fast.papers.schema import PAPER_SCHEMA, REJECT_SCHEMA, PaperTable
from hindsight_fast.planning import (
    GPUS,
    UTILISATION,
    Job,
    Machine,
    Plan,
    Speeds,
    _measuring,
    _sizes,
    assumed,
    look,
    make_plan,
    measure_speeds,
    shape_of,
)
from hindsight_fast.planning._stages import START
from hindsight_fast.pool import Pool, build_pool
from hindsight_fast.storage import create_array, publish
from hindsight_fast.store import build_store
from tiny_model import tiny_model

T, E = dt.date(2023, 6, 1), dt.date(2025, 12, 31)
DIM = 128


def made(folder: Path, n: int) -> Pool:
    """A store of made-up papers with texts of natural length, their vectors, and a pool."""
    rng = np.random.default_rng(n)
    words = np.array(_measuring.made_up_words()[:4_000], object)
    lengths = rng.integers(100, 240, n)
    places = len(words) * rng.random(int(lengths.sum())) ** 1.5
    drawn = words[places.astype(np.int64)].tolist()
    ends = np.cumsum(lengths).tolist()
    texts = [" ".join(drawn[end - m : end]) for end, m in zip(ends, lengths.tolist(), strict=True)]
    columns: dict[str, Any] = {
        "id": [f"https://proceedings.example/{i:07d}" for i in range(n)],
        "title": [text[-70:] for text in texts],
        "abstract": texts,
        "authors": [[words[i % 900], words[i % 700], words[i % 300]] for i in range(n)],
        "url": [f"https://proceedings.example/paper/{i:07d}" for i in range(n)],
        "venue": ["NeurIPS" if i % 5 == 0 else None for i in range(n)],
        "date": [T + dt.timedelta(days=i * 900 // n) for i in range(n)],
        "date_precision": "day",
        "date_kind": "first_public",
        "citations": [i * 7919 % 1009 for i in range(n)],
        "status": "ok",
    }
    papers = pl.DataFrame(columns).select(
        (pl.col(name) if name in columns else pl.lit(None)).cast(kind).alias(name)
        for name, kind in PAPER_SCHEMA.items()
    )
    counts = {"n_in": n, "n_papers": n, "n_merged": 0, "n_rejects": 0}
    store = build_store(
        PaperTable(papers, pl.DataFrame(schema=REJECT_SCHEMA), counts), folder / "store"
    )
    with publish(store.vectors_folder("made-up"), "vectors", "made-up") as staging:
        rows = create_array(staging.folder / "vectors.npy", np.float32, (n, DIM))
        rows[:] = _measuring.MadeUp(n, 1, DIM).papers
        staging.body |= {
            "n": n,
            "dim": DIM,
            "content_id": store.content_id,
            "encoder": "made-up",
            "encoder_fingerprint": "made-up",
            "precision": "float32",
            "theta": 0.96,
        }
    return build_pool(store, folder / "pool", cutoff=T, until=E, index=IndexConfig())


def on_disk(folder: Path, pattern: str = "*") -> int:
    return sum(path.stat().st_size for path in folder.rglob(pattern) if path.is_file())


@pytest.mark.parametrize("n", [2_000, 8_000])
def test_disk_is_foretold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n: int) -> None:
    monkeypatch.setattr(projection, "RESCORING", 1)  # so few papers get bytes as well
    monkeypatch.setattr(projection, "PAIR", 1)
    monkeypatch.setattr(projection, "FEWEST", 5_000)
    pool = made(tmp_path, n)
    store, facts = tmp_path / "store", pool.manifest.table("index")["facts"]
    axes = 0 if pool.projection is None else pool.projection.axes.shape[1]
    assert (axes > 0) == (n >= projection.FEWEST)

    texts = pool.store.papers(["title", "abstract"], 0, n)
    length = sum(int(texts[name].str.len_bytes().sum()) for name in texts.columns) / n
    foretold = {
        "vectors": _sizes.vectors(n, DIM),
        "projection": _sizes.projection(n, DIM, axes) if axes else 0,
        "index": _sizes.index(n, DIM, facts["n_axes"], 16),
        "impact": _sizes.impact(n),
        "papers": _sizes.papers(n, length / _sizes.TEXT_PER_TOKEN),
        "lookup": _sizes.lookup(n),
    }
    found = {
        "vectors": on_disk(store / "vectors", "*.npy"),
        "projection": on_disk(tmp_path / "pool", "scan-*"),
        "index": on_disk(tmp_path / "pool", "index*"),
        "impact": on_disk(tmp_path / "pool", "impact.npy"),
        "papers": on_disk(store, "papers.parquet"),
        "lookup": sum(on_disk(store, f"{name}*.npy") for name in ("lookup", "dates", "citations")),
    }
    for name in ("vectors", "projection", "index", "impact"):
        assert foretold[name] == pytest.approx(found[name], rel=0.02, abs=1_000), name
    whole = on_disk(tmp_path)
    assert sum(foretold.values()) == pytest.approx(whole, rel=0.1), (foretold, found)


LARGE = Machine(10**15, "this machine's", 10**16, "/somewhere", 2)


def planned(machine: Machine = LARGE, speeds: Speeds | None = None, **job: Any) -> Plan:
    facts: dict[str, Any] = {"papers": 1_000_000}
    one = Job(**facts | job)
    shape = shape_of(one.encoder)
    return make_plan(one, shape, machine, speeds or assumed(shape.dim))


@pytest.fixture(autouse=True)
def no_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HINDSIGHT_HOME", str(tmp_path))


def test_five_million_papers_in_words(tmp_path: Path) -> None:
    said = run(tmp_path, tmp_path, "plan --papers 5000000 --connectivity 16 --no-calibration")
    assert "vectors: 3,072 bytes a paper, 15.4 GB in all" in said.stdout
    assert f"index: {_sizes.index(5_000_000, 768, 128, 16) / 5e6:,.0f} bytes" in said.stdout
    assert "limit)" in said.stdout and "nothing was measured" in said.stdout


def test_what_takes_too_much_memory_is_refused(tmp_path: Path) -> None:
    command = "plan --papers 5000000 --no-calibration --max-ram 1"
    said = run(tmp_path, tmp_path, command)
    assert said.returncode == UsageError.exit_code
    assert "memory: need 1.8 GB (impact and axes of the pool), have 1.0 GB" in said.stderr
    told = json.loads(run(tmp_path, tmp_path, f"{command} --json").stdout)
    assert told["fits"] is False and "need 1.8 GB" in told["refused"]
    assert told["machine"]["memory_is"] == "--max-ram's"
    assert told["stages"] and told["bytes_per_paper"]["vectors"] == 3072


def test_what_takes_too_much_disk_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = type(shutil.disk_usage(tmp_path))(10**12, 10**12 - 10**9, 10**9)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage)  # pyright: ignore
    said = run(tmp_path, tmp_path, "plan --papers 1000000 --no-calibration --out no/such/place")
    assert said.returncode == StorageError.exit_code
    assert "disk: need 3.9 GB, have 1.0 GB free" in said.stderr
    small = run(tmp_path, tmp_path, "plan --papers 1000 --no-calibration --json")
    assert small.returncode == 0 and json.loads(small.stdout)["fits"] is True


def test_a_cgroup_limits_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pod").mkdir()
    (tmp_path / "pod" / "memory.max").write_text("3000000000\n")
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "own").write_text("0::/pod\n")
    monkeypatch.setattr(config, "_CGROUPS", tmp_path)
    monkeypatch.setattr(config, "_OWN_CGROUPS", tmp_path / "own")
    found = look(tmp_path)
    assert (found.memory, found.memory_is) == (3_000_000_000, "the cgroup's")
    assert look(tmp_path, max_ram=2e9).memory == 2_000_000_000
    with pytest.raises(UsageError, match="more than 0"):
        look(tmp_path, max_ram=0)


def test_memory_does_not_grow_with_ideas_and_time_does() -> None:
    few, many = planned(ideas=1_000), planned(ideas=1_000_000)
    assert few.memory == many.memory
    by_name = {stage.name: stage for stage in many.stages}
    for stage in few.stages:
        if stage.name.startswith(("search", "encode ideas", "tables")):
            start = START if stage.name == "encode ideas" else 0
            more = by_name[stage.name].seconds - start
            assert more == pytest.approx(1_000 * (stage.seconds - start))
        else:
            assert by_name[stage.name] == stage


def test_files_that_memory_can_not_hold_slow_a_search(tmp_path: Path) -> None:
    roomy, tight = (
        planned(Machine(size, "this machine's", 10**15, str(tmp_path), 2), index=False, ideas=4096)
        for size in (10**11, 2 * 10**9)
    )
    assert tight.refusal() is None and not roomy.warnings()
    (search,) = (stage for stage in tight.taken if stage.name.startswith("search"))
    share = 1 - (2e9 - search.private) / search.cached
    assert tight.slowed(search) == pytest.approx(4 * share * search.cached / 1e9)
    assert any(line.startswith("search: exact scan by bytes") for line in tight.warnings())
    assert tight.seconds > roomy.seconds


def test_a_scan_by_bytes_reads_only_vectors_that_it_rescores() -> None:
    small = Machine(2 * 10**9, "this machine's", 10**15, "/somewhere", 2)
    # 0.28 ms beyond bytes, of which a paper takes 1.12 microseconds: 250 papers an idea
    speeds = Speeds(scan_s=1.12e-8, rescore_s=2.8e-4, pruned_s=1e-9)
    plan = planned(small, speeds, index=False, ideas=10)
    (search,) = (stage for stage in plan.taken if stage.name.startswith("search"))
    share = 1 - (2e9 - search.private) / search.cached
    codes = _sizes.projection(1_000_000, 768, 128) / speeds.read_bps
    single = 10 * 250 / speeds.reads_per_s
    assert plan.slowed(search) == pytest.approx(share * (codes + single))


def test_what_is_assumed_follows_the_vectors_dimension() -> None:
    whole, half = assumed(768), assumed(384)
    assert whole == Speeds(notes=whole.notes)
    assert (half.scan_axes, half.index_axes) == (64, 64)
    for name in ("project_s", "scan_s", "pruned_s", "rescore_s", "index_add_s", "index_search_s"):
        assert getattr(half, name) == pytest.approx(getattr(whole, name) / 2), name


def test_an_index_where_the_exact_scan_would_be_noticed() -> None:
    names = [stage.name for stage in planned().taken]
    assert "index of the pool" not in names and "search: exact scan by bytes" in names
    fast = Speeds(tokens_per_s=1e6)
    names = [stage.name for stage in planned(speeds=fast).taken]
    assert "index of the pool" in names and "search: index" in names
    names = [stage.name for stage in planned(speeds=fast, index=False).taken]
    assert "index of the pool" not in names and "search: exact scan by bytes" in names
    few = planned(papers=1_000, index=False)
    assert [s.name for s in few.taken if s.name.startswith("search")] == [
        "search: exact scan in float32"
    ]


def test_gpus_are_estimated() -> None:
    fed = Speeds(tokenised_per_s=1e9)
    plan = planned(papers=10_000_000, ideas=100_000, index=False, speeds=fed)
    names = [stage.name for stage in plan.taken]
    a100, t4 = (dict(zip(names, plan.on(GPUS[name]), strict=True)) for name in ("a100", "t4"))
    flops = 1e7 * plan.shape.flops(230)
    assert a100["encode papers"] == pytest.approx(flops / (312e12 * UTILISATION))
    slow = planned(papers=10_000_000, index=False, speeds=Speeds(tokenised_per_s=1e3))
    assert slow.on(GPUS["a100"])[1] == pytest.approx(1e7 * 230 / 1e3)  # it waits for tokens
    assert a100["read and clean records"] == plan.stages[0].seconds
    scan = a100["search: exact scan by bytes"]
    assert scan == pytest.approx(2 * 1e7 * 768 * 1e5 / (19.5e12 * UTILISATION))
    assert t4["search: exact scan by bytes"] is None  # 31 GB of papers


def test_calls_to_language_models() -> None:
    calls = planned(ideas=200).llm_calls()
    assert (calls["generate_calls"], calls["judge_calls"]) == (300, 600)
    assert planned(ideas=200, votes=0).llm_calls()["judge_tokens_in"] == 0


def test_rewards_a_second() -> None:
    plan = planned(speeds=Speeds(tokens_per_s=2_300), index=False)
    costs = plan.costs
    assert costs.encode == pytest.approx(0.1)
    assert costs.rewards_per_s == pytest.approx(1 / (0.1 + costs.search + costs.table))
    assert costs.cached_rewards_per_s > 10 * costs.rewards_per_s


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        ("--encoder nosuch", EncoderError.exit_code, "nosuch"),
        ("--gpu v100", 2, "expected one of t4"),
        ("--k 5000", 2, "k = 5,000: expected 1 to 1,000"),
        ("--device cuda", 2, "--gpu estimates"),
        ("--max-ram -1", 2, "more than 0 is needed"),
    ],
)
def test_nonsense_is_refused(tmp_path: Path, options: str, code: int, words: str) -> None:
    said = run(tmp_path, tmp_path, f"plan --papers 1000 --no-calibration {options}")
    assert said.returncode == code and words in said.stderr


def test_the_machine_is_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"PAPERS": 4_096, "INDEXED": 512, "IDEAS": 8, "RECORDS": 64}.items():
        monkeypatch.setattr(_measuring, name, value)
    monkeypatch.setattr(_measuring, "_BYTES", 1 << 20)
    folder = tiny_model(tmp_path / "models" / "tiny")
    place = tmp_path / "place"
    place.mkdir()
    monkeypatch.setattr(os, "getloadavg", lambda: (0.1, 0.0, 0.0))
    job, told = Job(10_000, encoder=str(folder), device="cpu", tokens=20), list[str]()
    speeds = measure_speeds(job, shape_of(str(folder)), place, 2, told.append)
    assert not list(place.iterdir())
    assert {"tokens_per_s", "pruned_s", "index_add_s", "records_per_s"} <= set(speeds.measured)
    for name in speeds.measured:
        value = getattr(speeds, name)
        assert isinstance(value, str) or value >= 0, name
    assert (speeds.device, speeds.computed_in, speeds.notes) == ("cpu", "float32", ())
    assert told[-1].startswith("encoding with") and speeds.seconds > 0

    monkeypatch.setattr(os, "getloadavg", lambda: (7.25, 0.0, 0.0))
    said = run(tmp_path, place, "plan --papers 10000 --encoder specter2 --gpu all")
    assert "this machine was busy (load average 7.2)" in said.stdout
    assert said.returncode == 0, said.stderr
    assert "specter2 is not here" in said.stdout and "from matrix products" in said.stdout
    assert "estimated and not measured" in said.stdout


def test_texts_are_as_long_as_asked_for(tmp_path: Path) -> None:
    from hindsight_fast.encoders import load_encoder

    encoder = load_encoder(tiny_model(tmp_path / "model"), device="cpu")
    texts = _measuring.typical_texts(encoder, 30)
    assert encoder.count_tokens(texts).mean() == pytest.approx(30, rel=0.2)
