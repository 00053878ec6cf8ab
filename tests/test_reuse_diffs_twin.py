"""A diff is applied as a twin does it, paper by paper."""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from hindsight_fast.papers.records import RAW_SCHEMA, clean
from old_papers import (
    COLUMNS,
    LONGER,
    RENEWED,
    RULES,
    TEXT,
    Files,
    Row,
    abstract,
    apply,
    joint,
    old_of,
    paper,
    s2,
    tldr,
)


def twin(
    rows: Sequence[Row],
    merges: Mapping[str, Row],
    renewed: set[int],
    deleted: set[int],
    texts: Mapping[str, Mapping[int, str | None]],
    texts_deleted: Mapping[str, set[int]],
) -> dict[str, Row]:
    """Apply a diff paper by paper."""
    found: dict[str, Row] = {}
    for row in rows:
        told = merges.get(row["id"])
        records = told["records"] if told else [f"{row['source']} CorpusId:{row['corpus_id']}"]
        own = {
            at: int(name.split(":")[1])
            for at, name in enumerate(records)
            if name.startswith("s2 CorpusId:")
        }
        new = dict(row)
        for name in COLUMNS:
            by = own.get(told[name] if told else 0)
            if row[name] is None or name in ("title", "date", "status"):
                continue
            if by in deleted or (by in renewed and name in (*RENEWED, "source")):
                new[name] = None
        left = [at for at in range(len(records)) if own.get(at) not in deleted]
        if not left:
            continue
        if new["corpus_id"] is None:
            new["corpus_id"] = min((own[at] for at in left if at in own), default=None)
        stay = [at for at in left if own.get(at) not in renewed]
        new["n_records"] = max(len(stay), 1)
        if new["source"] is None:
            new["source"] = records[stay[0]].split(" ")[0] if stay else row["source"]
        for column, of_id in texts.items():
            by = own.get(told[column] if told else 0) if row[column] is not None else None
            if told is None and row[column] is None:
                by = own.get(0)
            given = [of_id[own[at]] for at in left if at in own and own[at] in of_id]
            best = max((text for text in given if text is not None), key=len, default=None)
            its_own = by is not None and (by in of_id or by in texts_deleted[column])
            if its_own or len(best or "") > len(new[column] or ""):
                new[column] = best
        if new["abstract"] != row["abstract"]:
            raw = {name: new[name] for name in ("title", "abstract")}
            cleaned = clean(pl.DataFrame([raw], schema=RAW_SCHEMA), RULES).papers
            (now,) = cleaned.iter_rows(named=True)
            new["language"] = now["language"]
            new["status"] = row["status"] if row["status"] == "retracted" else now["status"]
        found[row["id"]] = new
    return found


IDS = st.integers(1, 6)
TEXTS = st.sampled_from([None, TEXT, LONGER, TEXT.replace("many", "a few")])


@st.composite
def stores(draw: st.DrawFn) -> tuple[list[Row], list[Row]]:
    """Papers of one or more records, and what is told of the latter."""
    left = draw(st.permutations(range(1, 9)))
    rows, merges = list[Row](), list[Row]()
    for number in range(draw(st.integers(1, 4))):
        n_s2, n_others = draw(
            st.sampled_from([(1, 0), (1, 0), (1, 1), (2, 0), (2, 1), (0, 1), (0, 2)])
        )
        own, left = left[:n_s2], left[n_s2:]
        records = [f"s2 CorpusId:{one}" for one in own]
        records += [f"own x{number}-{other}" for other in range(n_others)]
        records = draw(st.permutations(records))
        row = s2(
            own[0] if own else 900 + number,
            id=f"id{number}",
            source=records[0].split(" ")[0],
            n_records=len(records),
            abstract=draw(TEXTS),
            status=draw(st.sampled_from(["ok", "ok", "retracted"])),
        )
        rows.append(row)
        if len(records) > 1:
            at = {name: draw(st.integers(0, len(records) - 1)) for name in COLUMNS}
            places = [place for place, name in enumerate(records) if name.startswith("s2")]
            at["corpus_id"], at["source"] = (places or [0])[0], 0
            row["corpus_id"] = int(records[places[0]].split(":")[1]) if places else 900 + number
            merges.append(joint(row, records, at))
    return rows, merges


@given(
    store=stores(),
    size=st.integers(1, 4),
    renewed=st.sets(IDS, max_size=3),
    deleted=st.sets(IDS, max_size=3),
    new_abstracts=st.dictionaries(IDS, TEXTS, max_size=3),
    new_tldrs=st.dictionaries(IDS, st.sampled_from(["Short.", "It is so, at length."]), max_size=3),
    no_abstracts=st.sets(IDS, max_size=2),
    no_tldrs=st.sets(IDS, max_size=2),
)
@settings(max_examples=30, deadline=None)
def test_a_diff_is_applied_as_paper_by_paper(
    store: tuple[list[Row], list[Row]],
    size: int,
    renewed: set[int],
    deleted: set[int],
    new_abstracts: dict[int, str | None],
    new_tldrs: dict[int, str],
    no_abstracts: set[int],
    no_tldrs: set[int],
) -> None:
    rows, merges = store
    # On one day a delete counts, so what is deleted is not updated.
    new_abstracts = {one: text for one, text in new_abstracts.items() if one not in no_abstracts}
    told_tldrs = {one: text for one, text in new_tldrs.items() if one not in no_tldrs}
    renewed -= deleted
    with tempfile.TemporaryDirectory() as root:
        files = Files(Path(root))
        files.update("p", *(paper(one) for one in sorted(renewed | deleted)))
        files.update("a.gz", *(abstract(one, text) for one, text in new_abstracts.items()))
        files.update("t", *(tldr(one, text) for one, text in new_tldrs.items()))
        files.delete("papers/1", *deleted)
        files.delete("abstracts/1.gz", *no_abstracts)
        files.delete("tldrs/1", *no_tldrs)
        found, told, _ = apply(old_of(rows, merges, size), files.diffs)
    expected = twin(
        rows,
        {row["id"]: row for row in merges},
        renewed,
        deleted,
        {"abstract": new_abstracts, "tldr": told_tldrs},
        {"abstract": no_abstracts, "tldr": no_tldrs},
    )
    assert found == expected
    lost = renewed | deleted
    for row in merges:
        stay = [
            name
            for name in row["records"]
            if not (name.startswith("s2") and int(name.split(":")[1]) in lost)
        ]
        if len(stay) < 2:
            assert row["id"] not in told
            continue
        assert told[row["id"]]["records"] == stay
        for name in COLUMNS:
            by = None if row[name] is None else row["records"][row[name]]
            at = told[row["id"]][name]
            assert (None if at is None else stay[at]) == (by if by in stay else None)
