"""The exact scan on a GPU: the same tables as on the CPU, and what becomes of trouble."""

import json
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from command_line import run
from cuda_stand_in import StandIn, install
from hindsight_fast import Scorer, runs, scoring
from hindsight_fast.encoders import load_encoder
from hindsight_fast.errors import EncoderError, UsageError
from hindsight_fast.pool import build_pool
from hindsight_models import ModelError, cuda, nearest
from scoring_world import World, made_up_ideas, make_world
from test_kernels_match import F32, unit


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_world(tmp_path_factory.mktemp("world"), index=True)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    """One GPU, with blocks that suit a test."""
    monkeypatch.setattr(nearest, "BLOCK", 16)
    return install(monkeypatch)


def ideas_of(world: World, n: int = 100) -> F32:
    return unit(np.random.default_rng(0), n, world.pool.vectors.shape[1])


@pytest.mark.parametrize("k", [1, 5, 200])
def test_tables_are_those_of_the_cpu(world: World, gpu: StandIn, k: int) -> None:
    vectors = ideas_of(world)
    on_gpu, on_cpu = (
        Scorer(world.pool, k=k, theta=0.1, search="exact", scan_device=device)
        for device in ("cuda", "cpu")
    )
    assert on_gpu.score_vectors(vectors).equals(on_cpu.score_vectors(vectors))
    assert on_gpu.exact_scan.ideas == {"cuda:0": 100}
    assert on_cpu.exact_scan.ideas == {"cpu": 100}
    assert on_gpu.signature == on_cpu.signature and "search=exact" in on_gpu.signature


def test_ideas_of_several_threads_are_all_counted(world: World) -> None:
    found = Scorer(world.pool, search="exact", scan_device="cpu").exact_scan
    found.ideas = Slow()
    vectors = ideas_of(world, 3)
    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(found.nominate, vectors) for _ in range(2)]:
            done.result()
    assert found.ideas == {"cpu": 6}


class Slow(Counter[str]):
    """A counter that takes its time, so that two who read it at once would see the same."""

    def __missing__(self, key: str) -> int:
        time.sleep(0.3)
        return 0


def test_what_a_gpu_is_not_certain_of_the_cpu_scans(
    world: World, gpu: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nearest, "_NARROWEST", 2)
    monkeypatch.setattr(nearest, "_WIDEST", 2)
    vectors = ideas_of(world)
    on_gpu, on_cpu = (
        Scorer(world.pool, k=2, theta=0.1, search="exact", scan_device=device)
        for device in ("cuda:0", "cpu")
    )
    assert on_gpu.score_vectors(vectors).equals(on_cpu.score_vectors(vectors))
    scanned = on_gpu.exact_scan.ideas
    assert scanned["cuda:0"] + scanned["cpu"] == 100 and min(scanned.values()) > 0


def test_the_gpu_that_encodes_scans_as_well(world: World, gpu: StandIn) -> None:
    encoder = load_encoder(world.encoder.folder, device="cuda")
    scorer = Scorer(world.pool, encoder, search="exact", theta=0.1)
    assert scorer.exact_scan.device == "cuda:0"
    scorer.score_vectors(ideas_of(world, 3))
    assert scorer.exact_scan.ideas == {"cpu": 3}, "for so few no papers are sent"
    scorer.score_vectors(ideas_of(world))
    scorer.score_vectors(ideas_of(world, 3))
    assert scorer.exact_scan.ideas == {"cpu": 3, "cuda:0": 103}
    assert Scorer(world.pool, world.encoder).exact_scan.device == "cpu"


def test_a_gpu_without_room_leaves_the_scan_to_the_cpu(
    world: World, gpu: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder, vectors = load_encoder(world.encoder.folder, device="cuda"), ideas_of(world)
    scorer = Scorer(world.pool, encoder, search="exact", theta=0.1, scan_memory=1000)
    expected = Scorer(world.pool, theta=0.1, search="exact").score_vectors(vectors)
    assert scorer.score_vectors(vectors).equals(expected)
    assert scorer.exact_scan.device == "cpu"
    assert "not on cuda:0: 1,000 bytes of the GPU's memory" in scorer.exact_scan.note
    with pytest.raises(EncoderError, match="1,000 bytes of the GPU's memory are too few") as told:
        Scorer(world.pool, scan_device="cuda", scan_memory=1000)
    assert told.value.exit_code == 4


def test_a_gpu_that_is_not_there_or_makes_no_sense_is_refused(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none() -> int:
        raise ModelError("there is no NVIDIA driver here")

    monkeypatch.setattr(cuda, "device_count", none)
    with pytest.raises(EncoderError, match="there is no NVIDIA driver here"):
        Scorer(world.pool, scan_device="cuda")
    with pytest.raises(UsageError, match="device is 'gpu'"):
        Scorer(world.pool, scan_device="gpu")


def test_auto_scans_exactly_on_a_gpu_while_that_costs_little(
    world: World, gpu: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scoring, "CANDIDATE_FLOPS", 0.01)  # an index looks at few papers
    encoder = load_encoder(world.encoder.folder, device="cuda")
    assert Scorer(world.pool, encoder).search == "exact"
    assert Scorer(world.pool, encoder, scan_device="cpu").search == "index"
    products = 2.0 * world.pool.n * world.pool.vectors.shape[1]
    encoder.flops_per_text = 10 * products  # were it in float32, just enough
    assert encoder.precision == "float16"
    assert Scorer(world.pool, encoder).search == "index"
    encoder.flops_per_text *= 8
    assert Scorer(world.pool, encoder).search == "exact"
    in_float32 = load_encoder(world.encoder.folder, device="cuda", precision="float32")
    in_float32.flops_per_text = 10 * products
    assert Scorer(world.pool, in_float32).search == "exact"


def test_an_empty_pool_has_nothing_to_send(world: World, gpu: StandIn, tmp_path: Path) -> None:
    late = world.pool.until
    empty = build_pool(world.store, tmp_path / "empty", cutoff=late, until=late)
    table = Scorer(empty, world.encoder, scan_device="cuda").score_vectors(ideas_of(world))
    assert (table["score"] == 0).all() and table.height == 100


def test_a_gpu_whose_memory_another_takes_later_leaves_the_scan_to_the_cpu(
    world: World, gpu: StandIn
) -> None:
    encoder, vectors = load_encoder(world.encoder.folder, device="cuda"), ideas_of(world)
    auto = Scorer(world.pool, encoder, search="exact", theta=0.1)
    named = Scorer(world.pool, search="exact", theta=0.1, scan_device="cuda")
    expected = auto.score_vectors(vectors)
    gpu.max_products = 0
    assert auto.score_vectors(vectors).equals(expected)
    assert auto.exact_scan.device == "cpu" and "no longer on cuda:0" in auto.exact_scan.note
    gpu.max_products = 1 << 60
    assert auto.score_vectors(vectors).equals(expected)
    assert auto.exact_scan.ideas == {"cuda:0": 100, "cpu": 200}
    gpu.max_products = 0
    with pytest.raises(EncoderError, match="Failed to allocate memory"):
        named.score_vectors(vectors)
    assert named.exact_scan.device == "cuda:0"


@pytest.mark.parametrize("device", ["auto", "cuda"])
def test_a_gpu_that_goes_wrong_stops_the_work(world: World, gpu: StandIn, device: str) -> None:
    encoder, vectors = load_encoder(world.encoder.folder, device="cuda"), ideas_of(world)
    scorer = Scorer(world.pool, encoder, theta=0.1, search="exact", scan_device=device)
    scorer.score_vectors(vectors)
    gpu.shift = 0.1
    with pytest.raises(EncoderError, match="computes other products than the CPU"):
        scorer.score_vectors(vectors)


@pytest.fixture
def ideas(tmp_path: Path) -> Path:
    path = tmp_path / "ideas.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in made_up_ideas(80)))
    return path


def test_the_summary_says_where_the_scan_ran(
    world: World, gpu: StandIn, ideas: Path, tmp_path: Path
) -> None:
    told = dict[str, str]()
    for device in ("cuda", "cpu"):
        command = (
            f"score {ideas} --pool {world.pool.path} --out {device}.parquet --search exact "
            f"--device cpu --scan-device {device} --gpu-mem 0.5 --json"
        )
        done = run(world.folder, tmp_path, command)
        assert done.returncode == 0, done.stderr
        told[device] = json.loads(done.stdout)["scan_device"]
    assert told == {"cuda": "cuda:0", "cpu": "cpu"}
    assert 0 < int(gpu.options[0]["gpu_mem_limit"]) < 500_000_000
    tables = [(tmp_path / f"{device}.parquet").read_bytes() for device in told]
    assert tables[0] == tables[1]


def test_the_summary_says_why_the_gpu_did_not_scan(
    world: World, gpu: StandIn, ideas: Path, tmp_path: Path
) -> None:
    encoder = load_encoder(world.encoder.folder, device="cuda")
    scorer = Scorer(world.pool, encoder, search="exact", scan_memory=1000)
    summary = runs.score_file(scorer, ideas, tmp_path / "s.parquet")
    assert (summary["device"], summary["scan_device"]) == ("cuda:0", "cpu")
    assert any("scanned on the CPU, not on cuda:0" in note for note in summary["notes"])


@pytest.mark.parametrize(("device", "code", "says"), [("gpu", 2, "'gpu'"), ("cuda", 4, "driver")])
def test_a_scan_device_that_can_not_be_had_is_refused_at_once(
    world: World,
    ideas: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    device: str,
    code: int,
    says: str,
) -> None:
    monkeypatch.setattr(cuda, "_DRIVER", "libno-such-driver.so.1")
    command = f"score {ideas} --pool {world.pool.path} --out s.parquet --scan-device {device}"
    done = run(world.folder, tmp_path, command)
    assert done.returncode == code and says in done.stderr, done.stderr
    assert not (tmp_path / "s.parquet").exists()
