"""The index: recall, copies, padding, threads, forks, and files that aren't as they should be."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from hindsight_fast.errors import ArtefactError, StorageError, UsageError
from hindsight_fast.index import AXES, COPIES, GRAPH, MEAN, Index, IndexConfig, build_index
from hindsight_kernels import exact, match

F32 = NDArray[np.float32]
DIM = 48
PATHS = {"PYTHONPATH": os.pathsep.join(sys.path)}


def like_an_encoder(seed: int, n: int, dim: int = DIM) -> F32:
    """Unit vectors with a large common mean and a short remainder."""
    rng = np.random.default_rng(seed)
    mean = np.random.default_rng(0).standard_normal(dim) * 3
    remainder = rng.standard_normal((n, dim)) / np.sqrt(np.arange(1, dim + 1))
    rows = (mean + remainder).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows


def build(folder: Path, vectors: F32, config: IndexConfig | None = None, threads: int = 2) -> Index:
    config = config or IndexConfig()
    build_index(vectors, np.ones(len(vectors), bool), folder, config, threads=threads)
    return Index.view(folder, config)


def recall(index: Index, ideas: F32, papers: F32, k: int = 10) -> float:
    impact = np.ones(len(papers), np.float32)
    right = exact(ideas, papers, impact, k, 0.9, threads=2)
    candidates = index.search(ideas, 4 * k, threads=2)
    found = match(ideas, papers, impact, candidates, k, 0.9, threads=2)
    return float((found.similarities >= right.similarities[:, -1:]).mean())


@pytest.fixture(scope="module")
def papers() -> F32:
    return like_an_encoder(1, 3000)


@pytest.fixture(scope="module")
def ideas() -> F32:
    return like_an_encoder(2, 100)


@pytest.fixture(scope="module")
def index(papers: F32, tmp_path_factory: pytest.TempPathFactory) -> Index:
    return build(tmp_path_factory.mktemp("index"), papers)


def test_nominates_the_nearest(index: Index, papers: F32, ideas: F32) -> None:
    assert index.n_papers == 3000
    assert recall(index, ideas, papers) > 0.98


def test_facts_and_progress(papers: F32, tmp_path: Path) -> None:
    eligible = np.arange(3000) % 3 == 0
    config, done = IndexConfig(expansion_add=32), list[int]()
    facts = build_index(papers, eligible, tmp_path, config, threads=512, progress=done.append)
    assert facts.n_papers == sum(done) == 1000 and facts.n_copies == 0 and facts.dim == DIM
    assert facts.threads == len(os.sched_getaffinity(0))
    assert facts.n_bytes == sum(file.stat().st_size for file in tmp_path.iterdir())
    found = Index.view(tmp_path, config).search(papers[:50], 7, threads=2)
    assert eligible[found].all()


def test_mean_and_axes_are_part_of_the_fingerprint(papers: F32, tmp_path: Path) -> None:
    marks: set[str] = set()
    config = IndexConfig(expansion_add=8)
    for eligible in (np.ones(3000, bool), np.arange(3000) > 5):
        marks.add(build_index(papers, eligible, tmp_path, config, threads=1).fingerprint)
    assert len(marks) == 2
    assert IndexConfig().fingerprint() != IndexConfig(connectivity=17).fingerprint()


def test_codes_keep_the_variance_that_was_asked_for(papers: F32, tmp_path: Path) -> None:
    everyone, centred = np.ones(3000, bool), papers - papers.mean(axis=0)
    spectrum = np.linalg.svd(centred.astype(np.float64), compute_uv=False) ** 2
    for variance in (0.3, 0.95, 1.0):
        config = IndexConfig(expansion_add=8, variance=variance)
        facts = build_index(papers, everyone, tmp_path, config, threads=2)
        kept = spectrum[: facts.n_axes].sum() / spectrum.sum()
        assert facts.variance == pytest.approx(kept, abs=1e-4) and kept > variance - 1e-6
        assert facts.n_axes % 32 == 0 or facts.n_axes == DIM
    with pytest.raises(UsageError, match="variance"):
        IndexConfig(variance=0)


def test_more_asked_for_than_there_are(papers: F32, tmp_path: Path) -> None:
    index = build(tmp_path, papers[:5])
    found = index.search(papers[:3], 9, threads=2)
    assert found.shape == (3, 9) and found.dtype == np.int32
    assert (np.sort(found[:, :5], axis=1) == np.arange(5)).all() and (found[:, 5:] == -1).all()


@pytest.mark.parametrize("n", [0, 1, 2])
def test_no_one_or_two_ideas(index: Index, papers: F32, n: int) -> None:
    found = index.search(papers[7 : 7 + n], 5, threads=2)
    assert found.shape == (n, 5)
    assert found[:, 0].tolist() == list(range(7, 7 + n))


def test_a_single_paper(papers: F32, tmp_path: Path) -> None:
    index = build(tmp_path, papers[:1])
    assert index.search(papers[:2], 3, threads=2).tolist() == [[0, -1, -1]] * 2


def test_copies_come_along(papers: F32, ideas: F32, tmp_path: Path) -> None:
    copied = papers.copy()
    rng = np.random.default_rng(3)
    copied[rng.random(3000) < 0.3] = papers[17]
    copied[rng.random(3000) < 0.1] = papers[5]
    index = build(tmp_path, copied)
    assert index.n_papers == 3000
    assert recall(index, ideas, copied) > 0.98
    same = np.flatnonzero((copied == copied[17]).all(axis=1))
    assert index.search(copied[17:18], 40, threads=1)[0].tolist() == same[:40].tolist()
    found = index.search(ideas, 30, threads=2)
    assert all(len(set(row.tolist())) == 30 for row in found) and found.min() >= 0


def test_all_papers_equal(papers: F32, tmp_path: Path) -> None:
    index = build(tmp_path, np.repeat(papers[:1], 200, axis=0))
    assert index.search(papers[:2], 20, threads=2).tolist() == [list(range(20))] * 2
    assert index.search(papers[:1], 300, threads=2)[0].tolist() == [*range(200), *[-1] * 100]


def test_deterministic_builds_are_equal_to_the_byte(papers: F32, tmp_path: Path) -> None:
    config = IndexConfig(expansion_add=32, deterministic=True)
    for name in "ab":
        (tmp_path / name).mkdir()
        build(tmp_path / name, papers[:1000], config)
    for file in (GRAPH, MEAN, AXES, COPIES):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


def test_another_expansion_after_opening(papers: F32, ideas: F32, tmp_path: Path) -> None:
    before = build(tmp_path, papers).search(ideas, 10, threads=1)
    again = Index.view(tmp_path, IndexConfig(expansion_search=256))
    assert again.expansion_search == 256
    assert (again.search(ideas, 10, threads=4) == before).mean() > 0.98


def test_many_threads_and_a_forked_child(index: Index, ideas: F32) -> None:
    right = index.search(ideas, 20, threads=1)
    wrong: list[int] = []

    def work(number: int) -> None:
        for _ in range(20):
            if (index.search(ideas, 20, threads=2) != right).any():
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = int((index.search(ideas, 20, threads=2) != right).any())
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_queries_that_are_no_numbers_do_no_harm(index: Index, ideas: F32) -> None:
    odd = ideas[:4].copy()
    odd[0], odd[1, 0], odd[2, 1] = np.nan, np.inf, -np.inf
    found = index.search(odd, 5, threads=2)
    assert ((found >= 0) & (found < 3000)).all()
    assert found[3].tolist() == index.search(ideas[3:4], 5, threads=1)[0].tolist()


def test_no_papers_no_index(papers: F32, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="empty pool"):
        build_index(papers, np.zeros(3000, bool), tmp_path, IndexConfig(), threads=1)


def test_what_is_refused(index: Index, ideas: F32) -> None:
    with pytest.raises(ValueError, match=r"expected \(n, 48\)"):
        index.search(ideas[:, :5], 3, threads=1)
    with pytest.raises(ValueError, match="count is 0"):
        index.search(ideas, 0, threads=1)
    with pytest.raises(UsageError):
        index.search(ideas, 3, threads=0)
    for links, add, search in ((1, 8, 8), (16, 0, 8), (16, 8, 0)):
        with pytest.raises(UsageError):
            IndexConfig(links, add, search)


def test_files_missing_cut_or_of_another_index(papers: F32, tmp_path: Path) -> None:
    config = IndexConfig(expansion_add=16)
    build(tmp_path, papers[:300], config)
    with pytest.raises(ArtefactError, match="connectivity"):
        Index.view(tmp_path, IndexConfig(connectivity=32))
    for file, size in ((GRAPH, 5000), (MEAN, 100), (AXES, 100), (COPIES, 20)):
        whole = (tmp_path / file).read_bytes()
        (tmp_path / file).write_bytes(whole[:size])
        with pytest.raises(ArtefactError, match="can't be opened"):
            Index.view(tmp_path, config)
        (tmp_path / file).unlink()
        with pytest.raises(ArtefactError, match="can't be opened"):
            Index.view(tmp_path, config)
        (tmp_path / file).write_bytes(whole)
    np.save(tmp_path / AXES, np.zeros((2, 5), np.float32))
    with pytest.raises(ArtefactError):
        Index.view(tmp_path, config)


def test_an_inference_engine_may_be_imported_after_the_index() -> None:
    pytest.importorskip("onnxruntime")
    code = "import hindsight_fast.index, onnxruntime"
    done = subprocess.run([sys.executable, "-c", code], env=os.environ | PATHS, timeout=60)
    assert done.returncode == 0


def test_no_such_folder_to_write_to(papers: F32, tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere"
    with pytest.raises(StorageError, match="nowhere"):
        build_index(papers[:10], np.ones(10, bool), nowhere, IndexConfig(), threads=1)


def test_one_search_may_hold_more_candidates_than_others(
    papers: F32, ideas: F32, tmp_path: Path
) -> None:
    few = build(tmp_path, papers, IndexConfig(expansion_search=8))
    many = Index.view(tmp_path, IndexConfig(expansion_search=400))

    narrow = few.search(ideas, 4, threads=1)
    wide = few.search(ideas, 4, threads=1, expansion=400)

    assert (narrow != wide).any()
    np.testing.assert_array_equal(wide, many.search(ideas, 4, threads=1))
    np.testing.assert_array_equal(narrow, few.search(ideas, 4, threads=1))
