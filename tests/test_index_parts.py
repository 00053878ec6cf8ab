"""An index built in parts: after any kill the same bytes, and every paper can be found."""

import json
import os
import random
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from usearch.index import Index as Usearch

from forging import facts as facts_of
from hindsight_fast.codes import ToCode
from hindsight_fast.errors import ArtefactError
from hindsight_fast.index import (
    AXES,
    FILES,
    GRAPH,
    MEAN,
    ROWS,
    STRAYS,
    Index,
    IndexConfig,
    Old,
    build_index,
    files_among,
)
from hindsight_fast.index import _build as building
from hindsight_fast.index._build import part_end
from hindsight_fast.index._graph import Graph
from hindsight_fast.index._links import read_layout, read_saved
from hindsight_fast.index._order import near_order, write_in_order
from hindsight_fast.index._search import _Nearest, _with_strays  # pyright: ignore[reportPrivateUsage]
from hindsight_fast.storage import FileFacts, publish_stepwise
from hindsight_kernels import FAR, walk
from killing import in_child
from test_index import DIM, F32, build, like_an_encoder, recall

ONE = IndexConfig(expansion_add=32, deterministic=True)
TWO = IndexConfig(expansion_add=32)


class Notes:
    """A journal in memory."""

    def __init__(self) -> None:
        self.noted = list[Mapping[str, Any]]()
        self.stop_after = 1 << 30

    def note(self, record: Mapping[str, Any]) -> None:
        if len(self.noted) >= self.stop_after:
            raise KeyboardInterrupt
        self.noted.append(json.loads(json.dumps(record)))


@pytest.fixture(scope="module")
def papers() -> F32:
    return like_an_encoder(1, 3000)


@pytest.fixture(scope="module")
def ideas() -> F32:
    return like_an_encoder(2, 100)


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "SMALLEST_PART", 400)
    monkeypatch.setattr(building, "CHUNK", 150)


def everyone(papers: F32) -> NDArray[np.bool_]:
    return np.ones(len(papers), bool)


def contents(folder: Path) -> dict[str, bytes]:
    return {f.name: f.read_bytes() for f in folder.iterdir() if f.name[0] != "."}


def test_parts_grow_with_what_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    ends, done = list[int](), 0
    while done < 10_000_000:
        ends.append(done := part_end(done, 10_000_000))
    assert ends[:2] == [2**18, 2**19] and len(ends) < 30
    saved = sum(ends)  # papers written in all
    assert saved < 10 * 10_000_000


@pytest.mark.parametrize("config", [ONE, TWO], ids=["one thread", "two threads"])
def test_work_goes_on_behind_any_note(papers: F32, tmp_path: Path, config: IndexConfig) -> None:
    whole = tmp_path / "whole"
    whole.mkdir()
    build_index(papers, everyone(papers), whole, config, threads=2)
    assert {*contents(whole)} == {*FILES}
    for stop in (0, 1, 2, 5, 8, 9):  # the plan is noted, then parts of 400, then the whole
        folder, notes, added = tmp_path / f"{stop}", Notes(), list[int]()
        folder.mkdir()
        notes.stop_after = stop
        with pytest.raises(KeyboardInterrupt):
            build_index(papers, everyone(papers), folder, config, threads=2, work=notes)
        notes.stop_after = 1 << 30
        facts = build_index(
            papers, everyone(papers), folder, config, threads=2, progress=added.append, work=notes
        )
        restored = min(max(stop - 1, 0) * 400, 3000)
        assert added[0] == restored and sum(added) == 3000 == facts.n_papers
        assert {*contents(folder)} == {*FILES}
        if config.deterministic:
            assert contents(folder) == contents(whole)
        assert (Index.view(folder, config).search(papers, 1, threads=2)[:, 0] >= 0).all()
        again = build_index(papers, everyone(papers), folder, config, threads=2, work=notes)
        assert again == facts


def test_a_graph_that_is_not_the_one_noted_is_never_loaded(
    papers: F32, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = Notes()
    notes.stop_after = 4
    with pytest.raises(KeyboardInterrupt):
        build_index(papers, everyone(papers), tmp_path, TWO, threads=2, work=notes)
    notes.stop_after = 1 << 30
    (part,) = (f for f in tmp_path.glob("index-part-graph-*") if f.name in str(notes.noted[-1]))
    good = part.read_bytes()
    part.write_bytes(good[:-9] + bytes([good[-9] ^ 1]) + good[-8:])
    bad = part.read_bytes()
    opened = Graph.load.__func__  # type: ignore[attr-defined]

    def watched(cls: type[Graph], path: Path, *args: Any, **kwargs: Any) -> Graph:
        assert path.read_bytes() != bad
        graph: Graph = opened(cls, path, *args, **kwargs)
        return graph

    monkeypatch.setattr(Graph, "load", classmethod(watched))
    facts = build_index(papers, everyone(papers), tmp_path, TWO, threads=2, work=notes)
    assert facts.n_papers == 3000


def test_killed_at_random_and_gone_on_with(papers: F32, tmp_path: Path) -> None:
    """Real processes, as `pool --index --deterministic` works."""
    chance = random.Random(7)

    def make(path: Path) -> None:
        with publish_stepwise(path, "index", "mark", {"made from": "this"}) as work:
            noted = {name for record in work.noted for name in record["files"]}
            for file in work.folder.iterdir():
                if file.name not in noted and file.name[0] != ".":
                    file.unlink()
            build_index(papers, everyone(papers), work.folder, ONE, threads=1, work=work)

    whole = tmp_path / "whole"
    began = time.monotonic()
    assert os.waitpid(in_child(lambda: make(whole)), 0)[1] == 0
    took, n_killed = time.monotonic() - began, 0
    for attempt in range(12):
        path = tmp_path / f"{attempt}"
        while not path.exists():
            pid = in_child(lambda path=path: make(path))  # type: ignore[misc]
            time.sleep(chance.uniform(0.1, 0.9) * took)
            os.kill(pid, signal.SIGKILL)
            n_killed += os.waitpid(pid, 0)[1] == signal.SIGKILL
        assert contents(path) == contents(whole)
    assert n_killed > 6


def test_bytes_are_the_same_whatever_the_parts_were_noted_in(papers: F32, tmp_path: Path) -> None:
    for name, work in (("a", None), ("b", Notes())):
        (tmp_path / name).mkdir()
        build_index(papers, everyone(papers), tmp_path / name, ONE, threads=2, work=work)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


def clustered() -> F32:
    """Ten tight clusters far from each other, and papers between them."""
    rng = np.random.default_rng(5)
    centres = like_an_encoder(8, 10)
    rows = np.repeat(centres, 300, axis=0)
    rows += 0.002 * rng.standard_normal(rows.shape).astype(np.float32)
    rows = np.concatenate([rows, like_an_encoder(9, 500)])
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows.astype(np.float32)[rng.permutation(len(rows))]


def hubs() -> F32:
    """Papers right at the mean, which are near to everything."""
    rows = like_an_encoder(11, 3000)
    mean = rows.mean(axis=0)
    rows[:100] = mean / np.linalg.norm(mean)
    rows[:100] += 1e-3 * np.random.default_rng(0).standard_normal((100, DIM)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows


def duplicated() -> F32:
    rows, rng = like_an_encoder(12, 4000), np.random.default_rng(12)
    copied = rng.random(4000) < 0.3
    rows[copied] = rows[rng.integers(0, 4000, int(copied.sum()))]
    return rows


def copied_often() -> F32:
    rows = like_an_encoder(13, 11_500)
    rows[1000:11_000] = rows[7]
    return rows


@pytest.mark.parametrize("make", [clustered, hubs, duplicated, copied_often])
def test_every_paper_can_be_found(tmp_path: Path, make: Callable[[], F32]) -> None:
    rows = make()
    index = build(tmp_path, rows, IndexConfig(expansion_add=32))
    assert index.n_papers == len(rows)
    some = np.arange(0, len(rows), 5)
    found = index.search(rows[some], 150, threads=2, expansion=1024)
    assert all(len(set(row.tolist())) == 150 for row in found[:200]) and found.min() >= 0
    own = (rows[found] == rows[some][:, None]).all(axis=2).any(axis=1)
    assert own.mean() > 0.998  # a search may go down where no way leads back
    assert recall(index, like_an_encoder(14, 60), rows) > 0.96


def hide(path: Path, keys: list[int]) -> None:
    """Let each link to some keys of a saved graph lead to its entry instead."""
    layout = read_layout(path)
    links, raw = layout.links, layout.raw.copy()
    slots = np.flatnonzero(np.isin(layout.keys(np.arange(len(layout.levels))), keys))
    assert len(slots) == len(keys) and links.entry not in slots
    for at, level in zip(links.places.tolist(), layout.levels.tolist(), strict=True):
        for room in [links.base] + [links.upper] * level:
            listed = raw[at + 4 : at + 4 * (1 + room)].view("<u4")
            listed[np.isin(listed, slots)] = links.entry
            at += 4 * (1 + room)
    path.unlink()  # others may have mapped it
    raw.tofile(path)
    saved = read_saved(path)
    assert not saved.reached[slots].any() and saved.reached.sum() >= len(saved.keys) - len(keys)


def test_what_no_link_leads_to_is_added_again_or_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, unlinked = like_an_encoder(15, 600), [3, 77, 400]

    def blind(path: Path) -> Any:
        saved = read_saved(path)
        hidden = unlinked if len(saved.keys) == 600 else [*unlinked, 601]
        return saved._replace(reached=~np.isin(saved.keys, hidden))

    monkeypatch.setattr(building, "read_saved", blind)
    facts = build_index(rows, everyone(rows), tmp_path, IndexConfig(), threads=2)
    assert facts.n_unreachable == 1 and facts.n_papers == 600
    in_rows = np.load(tmp_path / ROWS)
    assert (in_rows[unlinked] == -1).all() and in_rows[600:].tolist() == unlinked
    assert np.load(tmp_path / STRAYS).tolist() == [601]
    hide(tmp_path / GRAPH, [601])
    index = Index.view(tmp_path, IndexConfig())
    assert index.n_papers == 600
    assert index.search(rows[unlinked], 1, threads=2)[:, 0].tolist() == unlinked
    np.save(tmp_path / STRAYS, np.empty(0, np.int32))
    assert Index.view(tmp_path, IndexConfig()).search(rows[[77]], 1, threads=2).item() != 77


def test_strays_are_looked_at_one_by_one(tmp_path: Path) -> None:
    rows, hidden = like_an_encoder(16, 500), [3, 200]
    build(tmp_path, rows, threads=1)
    assert np.load(tmp_path / ROWS).tolist() == list(range(500))
    hide(tmp_path / GRAPH, hidden)
    found = Index.view(tmp_path, IndexConfig()).search(rows, 5, threads=2)
    assert not np.isin(found, hidden).any() and found.min() >= 0
    np.save(tmp_path / STRAYS, np.array(hidden, np.int32))
    found = Index.view(tmp_path, IndexConfig()).search(rows, 5, threads=2)
    assert all(len(set(row.tolist())) == 5 for row in found) and found.min() >= 0
    assert (found[hidden, 0] == hidden).all()


def found_by_usearch(path: Path, codes: NDArray[np.int8], count: int, expansion: int) -> Any:
    """What usearch's own search finds in a saved graph."""
    graph: Any = Usearch(ndim=codes.shape[1], metric="l2sq", dtype="i8", expansion_search=expansion)
    graph.view(os.fspath(path))
    return np.asarray(graph.search(codes, count, threads=1).keys).astype(np.int64)


def test_a_walk_finds_what_usearch_finds(papers: F32, ideas: F32, tmp_path: Path) -> None:
    index = build(tmp_path, papers)
    in_rows = np.load(tmp_path / ROWS)
    for expansion in (20, 200):
        right = in_rows[found_by_usearch(tmp_path / GRAPH, index.codes(ideas), 20, expansion)]
        found = index.search(ideas, 20, threads=2, expansion=expansion)
        assert (np.sort(found) == np.sort(right)).mean() > 0.99  # but for equal distances


def test_slots_in_another_order_are_the_same_graph(papers: F32, tmp_path: Path) -> None:
    build(tmp_path, papers)
    was = read_layout(tmp_path / GRAPH)
    # Slots, of which there are more than papers where some were added again.
    order = np.random.default_rng(5).permutation(len(was.levels))
    write_in_order(was, order, tmp_path / "mixed")
    now = read_layout(tmp_path / "mixed")
    np.testing.assert_array_equal(now.keys(np.arange(len(order))), was.keys(order))
    codes = was.links.codes[::7]
    near, others = (walk(codes, one.links, 5, 50, threads=2) for one in (was, now))
    np.testing.assert_array_equal(near.distances, others.distances)
    back = np.argsort(order)
    write_in_order(now, back, tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == (tmp_path / GRAPH).read_bytes()
    assert sorted(near_order(was.links.codes)) == list(range(len(order)))


def test_near_codes_come_near_each_other() -> None:
    rng = np.random.default_rng(6)
    centres = rng.integers(-90, 90, (32, 16))
    group = rng.integers(0, 32, 4096)
    codes = (centres[group] + rng.integers(-9, 9, (4096, 16))).astype(np.int8)
    changes = np.diff(group[near_order(codes)]) != 0
    assert changes.mean() < 0.1  # 0.97 as they came
    assert near_order(codes[:0]).tolist() == [] and len(near_order(codes[:1].repeat(99, 0))) == 99


def test_links_are_read_as_they_are(tmp_path: Path) -> None:
    graph = Graph(32, IndexConfig(connectivity=4, expansion_add=8))
    codes = np.random.default_rng(3).integers(-90, 90, (3000, 32)).astype(np.int8)
    graph.add(np.arange(3000), codes, 1)
    graph.save(tmp_path / GRAPH)
    saved = read_saved(tmp_path / GRAPH)
    np.testing.assert_array_equal(graph.codes(saved.keys), saved.codes)
    far = found_by_usearch(tmp_path / GRAPH, saved.codes, 1, expansion=len(codes))[:, 0]
    assert (far == saved.keys)[saved.reached].all()
    lost = ~saved.reached
    assert 0 < lost.sum() < 300 and (far != saved.keys)[lost].mean() > 0.9
    whole = (tmp_path / GRAPH).read_bytes()
    for wrong in (whole[:-1], whole[:9], whole[: len(whole) // 2], b"\0" * len(whole)):
        (tmp_path / GRAPH).write_bytes(wrong)
        with pytest.raises(ArtefactError, match="laid out"):
            read_saved(tmp_path / GRAPH)


def test_an_index_whose_keys_are_rows_opens_and_grows(papers: F32, tmp_path: Path) -> None:
    """As versions before wrote it: no rows, no strays."""
    eligible = np.arange(3000) % 4 > 0
    rows = np.flatnonzero(eligible)
    build_index(papers, eligible, tmp_path, IndexConfig(), threads=1)
    right = Index.view(tmp_path, IndexConfig()).search(papers[:50], 9, threads=1)
    to_code = ToCode(np.load(tmp_path / MEAN), np.load(tmp_path / AXES))
    graph = Graph(to_code.axes.shape[1], IndexConfig())
    graph.add(rows, to_code(papers[rows]), 1)
    graph.save(tmp_path / GRAPH)
    for name in (ROWS, STRAYS):
        (tmp_path / name).unlink()
    named = {file.name: FileFacts(**facts_of(file)) for file in tmp_path.iterdir()}
    older = Index.view(tmp_path, IndexConfig(), files_among(named))
    assert older.n_papers == 2250
    found = older.search(papers[:50], 9, threads=1)
    assert eligible[found].all() and (found == right).mean() > 0.99

    new = tmp_path / "new"
    new.mkdir()
    old = Old(tmp_path, IndexConfig(), named)
    facts = build_index(papers, everyone(papers), new, IndexConfig(), threads=2, old=old)
    # The same product may be rounded otherwise among other rows, and a code differ by one.
    assert 2245 < facts.n_taken <= 2250 and (facts.n_papers, facts.not_taken) == (3000, "")
    grown = Index.view(new, IndexConfig())
    assert grown.n_papers == 3000
    assert (grown.search(papers, 1, threads=2)[:, 0] == np.arange(3000)).mean() > 0.998


def test_a_graph_that_holds_more_than_its_rows_say_is_refused(papers: F32, tmp_path: Path) -> None:
    built = build(tmp_path, papers[:600])
    rows = np.load(tmp_path / ROWS)
    assert (built.search(papers[:50], 1, threads=1) >= 0).all()
    np.save(tmp_path / ROWS, rows[:100])
    cut = Index.view(tmp_path, IndexConfig())
    with pytest.raises(ArtefactError, match="more than its index-rows"):
        cut.search(papers[:600], 1, threads=1)
    named = {name: FileFacts(**facts_of(tmp_path / name)) for name in FILES}
    (tmp_path / "new").mkdir()
    with pytest.raises(ArtefactError, match="more than its index-rows"):
        build_index(
            papers,
            np.arange(3000) < 600,
            tmp_path / "new",
            IndexConfig(),
            threads=1,
            old=Old(tmp_path, IndexConfig(), named),
        )
    np.save(tmp_path / ROWS, rows)
    for strays in ([599, 600], [-1]):
        np.save(tmp_path / STRAYS, np.array(strays, np.int32))
        with pytest.raises(ArtefactError, match="not in its graph"):
            Index.view(tmp_path, IndexConfig())


def test_distances_to_strays_are_exact_along_many_axes() -> None:
    codes = np.full((1, 1101), 127, np.int8)  # its square is odd, and more than 2**24
    nobody = _Nearest(np.full((1, 1), -1, np.int64), np.full((1, 1), FAR, np.int64))
    found = _with_strays(codes, nobody, np.array([7], np.int32), codes.astype(np.int32))
    assert (found.keys.item(), found.distances.item()) == (7, 0)
