"""Groups of records to papers, a bounded number at a time; and ids that several papers have."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl

from hindsight_fast.papers.duplicates import Groups, keys_of
from hindsight_fast.papers.gathering._keys import Keys
from hindsight_fast.papers.gathering._order import ordering
from hindsight_fast.papers.gathering._papers import Papers
from hindsight_fast.papers.merging import NAMED, Each, one_each, suffixed
from hindsight_fast.papers.schema import PAPER_SCHEMA, Role
from hindsight_fast.papers.venues import Table
from hindsight_fast.storage import storage_errors

_RECORD = PAPER_SCHEMA | {"role": pl.UInt8()}


def merge_groups(
    groups: Groups, papers: Papers, keys: Keys, table: Table, folder: Path, bin_bytes: int
) -> Each:
    """Merge the records of each group into one paper, which takes the place of its first row.

    Parameters
    ----------
    groups : Groups
    papers : Papers
    keys : Keys
        Both get the new rows.
    table : Table
    folder : pathlib.Path
        One that is not there yet, for records of groups that don't fit into memory together.
    bin_bytes : int
        Text of records that are merged at a time.

    Returns
    -------
    Each
        Without the papers, but for what names them.
    """
    members = keys.fetch(groups.rows, ["role", "bytes"]).with_columns(
        row=pl.Series(groups.rows), group=pl.Series(groups.labels)
    )
    papers.kill(groups.rows)
    members = members.filter((pl.col("role") <= Role.OLD).any().over("group"))
    merged = [one_each(pl.DataFrame(schema=_RECORD | NAMED), table)]
    for records in _bins(_with_bin(members, bin_bytes), papers, folder):
        identity = keys_of(records, table)["identity"]
        each = one_each(records.with_columns(identity), table)
        ordered = each.papers[each.papers.select(ordering()).to_series()]
        papers.replace(ordered["group"].to_numpy(), ordered)
        keys.add(keys.of_merged(ordered))
        merged.append(each)
    return Each(*(pl.concat(frames) for frames in zip(*merged, strict=True)))


def _with_bin(members: pl.DataFrame, bin_bytes: int) -> pl.DataFrame:
    """Add ``bin``: whole groups, until one is full."""
    sizes = members.group_by("group").agg(pl.col("bytes").sum()).sort("group")
    before = pl.col("bytes").cum_sum() - pl.col("bytes")
    bins = sizes.select("group", bin=before // bin_bytes)
    return members.select("row", "group").join(bins, on="group", maintain_order="left")


def _bins(members: pl.DataFrame, papers: Papers, folder: Path) -> Iterator[pl.DataFrame]:
    """Yield the records of each bin, with their ``group``; rows are read once, file by file."""
    rows = members["row"].to_numpy()
    if members["bin"].n_unique() <= 1:
        found = [frame for _, frame in papers.pick(rows, list(_RECORD))]
        if found:
            yield pl.concat(found, rechunk=True).with_columns(members["group"])
        return
    with storage_errors(f"write {folder}"):
        folder.mkdir()
        done = 0
        pieces: dict[int, list[Path]] = {}
        for found_rows, frame in papers.pick(rows, list(_RECORD)):
            binned = frame.hstack(members.slice(done, len(found_rows)).select("group", "bin"))
            done += len(found_rows)
            for (number, *_), piece in binned.partition_by("bin", as_dict=True).items():
                path = folder / f"{number}-{done}.arrow"
                piece.drop("bin").write_ipc(path)
                pieces.setdefault(int(number), []).append(path)
    for number in sorted(pieces):
        yield pl.concat([pl.read_ipc(path) for path in pieces[number]], rechunk=True)
        for path in pieces[number]:
            path.unlink()


def tell_apart(papers: Papers, keys: Keys, table: Table) -> int:
    """Give ids that several papers have a suffix, as `merging.tell_apart` does.

    Returns
    -------
    int
        How many papers got one.
    """
    named = [rows.filter(role=Role.RECORD) for rows in keys.take("name", ["role"], papers.alive)]
    rows = np.sort(pl.concat(named)["row"].to_numpy())
    for found, frame in papers.pick(rows, [*PAPER_SCHEMA, "identity"]):
        identity = frame["identity"].fill_null(keys_of(frame, table)["identity"])
        ids = suffixed(frame["id"], identity)
        renamed = frame.with_columns(ids.alias("id")).drop("identity")
        order = renamed.select(ordering()).to_series()
        papers.replace(found[order.to_numpy()], renamed[order])
    return len(rows)
