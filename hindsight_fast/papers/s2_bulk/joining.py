"""Papers joined with their texts and the dates of what cites them, in bounded memory.

A Grace join: each dataset is read once and split on disk by corpus id (`buckets`), then joined in
memory bucket by bucket. What `keep` leaves out is marked while the papers are read, so that texts
and citations of it are never written.
"""

from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import polars as pl

from hindsight_fast.errors import DataError
from hindsight_fast.papers.readers._batch import Batch
from hindsight_fast.papers.readers.tables import BATCH_RECORDS
from hindsight_fast.papers.records import RAW_SCHEMA
from hindsight_fast.papers.s2_bulk import rows, shards
from hindsight_fast.papers.s2_bulk.adding import UNKNOWN, newest_first, with_dated, with_texts
from hindsight_fast.papers.s2_bulk.buckets import BUCKET_BYTES, Buckets, Marks, bucket_count
from hindsight_fast.papers.s2_bulk.deletes import Deletes
from hindsight_fast.papers.s2_bulk.shards import Decoded, WithId, decoded

Keep = Callable[[pl.DataFrame], pl.Series]
Read = Iterator[tuple[Path, Batch]]

USED: Final = ("papers", "abstracts", "tldrs", "citations", "publication-venues", "paper-ids")
"""Datasets that tell of papers."""

_SPILLED: dict[str, dict[str, pl.DataType]] = {
    "papers": shards.PAPERS | {"file": pl.Int64(), "kept": pl.Boolean(), "month": pl.Int32()},
    "abstracts": shards.ABSTRACTS,
    "tldrs": shards.TLDRS,
    "citing": shards.EDGES,
    "cited": {"corpusid": pl.Int64(), "month": pl.Int32(), "n": pl.Int64()},
}
_COLUMNS = frozenset({"title"})


class Settings(NamedTuple):
    """How a join is done.

    Attributes
    ----------
    keep : callable or None
        ``keep(raw)`` tells of records (`RAW_SCHEMA`, with nulls where texts are not joined yet)
        which are to be joined with texts; by default all.
    limit : int or None
        Read at most so many records of each of the papers' shards.
    bucket_bytes : int
        Of text that is joined in memory at a time.
    deletes : mapping of str to Deletes
        Corpus ids of which a dataset's records are passed over, and counted.
    """

    keep: Keep | None = None
    limit: int | None = None
    bucket_bytes: int = BUCKET_BYTES
    deletes: Mapping[str, Deletes] = MappingProxyType({})


def read(
    datasets: Mapping[str, Sequence[Path]],
    work: Path,
    counts: Counter[str],
    settings: Settings | None = None,
) -> Read:
    """Read papers from the shards of Semantic Scholar's bulk datasets.

    Every record of the papers' shards comes once, as a record or a reject. Of several with one
    corpus id all come; the newer (by ``updated``) keeps what it says, the older ones give their
    title, ids and dates only. Lines of other shards that are no record, or have no corpus id, are
    rejects too.

    ``citations`` is the paper's own count. ``citations_dated`` counts each citing paper once, at
    the month or year of its publication, from all times (hence a first count, 0, of a year long
    ago); it is null where less than `adding.DATED_SHARE` of the citations are dated, or no shards
    of citations are given. ``citations_as_of`` is the release's day where the name of a shard or
    of its folders has it, else the newest day on which a record was updated.

    Parameters
    ----------
    datasets : mapping of str to sequence of pathlib.Path
        Name of a dataset to its shards: JSON lines, plain or compressed, of any name.
    work : pathlib.Path
        A folder that is not there yet, for what does not fit into memory: about the size of the
        papers and of the texts of those that are kept, compressed lightly. It is emptied on the
        way.
    counts : Counter of str
        Filled on the way, whole at the end; see the package for the names.
    settings : Settings, optional

    Yields
    ------
    path : pathlib.Path
        The shard that the records stand in.
    batch : Batch

    Raises
    ------
    DataError
        The papers' shards are missing, or a shard is damaged.
    StorageError
        No space or no rights in `work`, or a shard that the system does not let be read.
    """
    check(datasets)
    for name in sorted(set(datasets) - set(USED)):
        counts[f"unused_{name}"] += len(datasets[name])
    job = _Join(datasets, work, counts, settings or Settings())
    yield from job.papers()
    yield from job.texts("abstracts", shards.Abstract, shards.abstracts)
    yield from job.texts("tldrs", shards.Tldr, shards.tldrs)
    yield from job.citations()
    yield from job.joined()


def check(datasets: Mapping[str, Sequence[Path]]) -> None:
    """Check that papers can be made of these datasets.

    Raises
    ------
    DataError
        Where not: what is missing, or what the shards are good for.
    """
    given = {name: paths for name, paths in datasets.items() if paths}
    if "papers" in given:
        return
    first = next((paths[0] for paths in given.values()), Path())
    if set(given) == {"embeddings"}:
        raise DataError(
            f"{first} holds vectors (Semantic Scholar's dataset embeddings), no papers: build a "
            "store from the papers dataset, then give it these with embed --from-vectors"
        )
    raise DataError(
        f"{first} is a shard of Semantic Scholar's dataset {', '.join(given)}, which makes no "
        "papers without shards of the papers dataset: give these too"
    )


class _Join:
    """The phases of `read`, in order; each yields the rejects of the shards that it reads."""

    def __init__(
        self,
        datasets: Mapping[str, Sequence[Path]],
        work: Path,
        counts: Counter[str],
        settings: Settings,
    ) -> None:
        self._datasets = datasets
        self._counts = counts
        self._settings = settings
        self._marks = Marks()
        self._newest = ""
        texts = [path for name in ("papers", "abstracts", "tldrs") for path in self._of(name)]
        self._n = bucket_count(texts, settings.bucket_bytes)
        self._spilled = {
            name: Buckets(work / name, self._n, schema) for name, schema in _SPILLED.items()
        }

    def _of(self, dataset: str) -> Sequence[Path]:
        return self._datasets.get(dataset, ())

    def papers(self) -> Read:
        """Write the papers to their buckets, and mark those to be joined with texts."""
        names = yield from self._venue_names()
        keep = self._settings.keep
        for number, path in enumerate(self._of("papers")):
            for batch in decoded(path, shards.Paper, self._settings.limit):
                yield from self._rejects(path, batch)
                papers = rows.with_venues(shards.papers(batch), names)
                papers = papers.filter(self._is_left("papers", papers["corpusid"], path))
                kept = (
                    keep(rows.raw(papers)) if keep else pl.repeat(True, papers.height, eager=True)
                )
                self._marks.add(papers["corpusid"].filter(kept))
                self._newest = max((self._newest, *papers["updated"].drop_nulls().sort()[-1:]))
                self._spilled["papers"].add(
                    papers.with_columns(
                        file=pl.lit(number, pl.Int64), kept=kept, month=rows.month(papers)
                    )
                )

    def _venue_names(self) -> Generator[tuple[Path, Batch], None, pl.DataFrame]:
        schema = {"venue_id": pl.String(), "venue_name": pl.String()}
        found = [pl.DataFrame(schema=schema)]
        for path in self._of("publication-venues"):
            for batch in decoded(path, shards.Venue):
                yield from self._rejects(path, batch)
                named = [(record.id, record.name) for record in batch.records]
                found.append(pl.DataFrame(named, schema=schema, orient="row").drop_nulls())
        return pl.concat(found).sort("venue_id", "venue_name").unique("venue_id", keep="first")

    def _rejects(
        self, path: Path, batch: Decoded[Any], without_id: pl.Series | None = None
    ) -> Read:
        """Note what was malformed, and yield the lines that are no record or have no corpus id."""
        for key, count in batch.malformed.items():
            self._counts[f"malformed_{key}"] += count
        bad = batch.bad
        if without_id is not None:
            bad = bad + [(batch.lines[row], "no corpusid", "") for row in without_id.arg_true()]
        if bad:
            rejects = pl.DataFrame(sorted(bad), schema=shards.REJECTS, orient="row")
            yield path, Batch(pl.DataFrame(schema=RAW_SCHEMA), rejects, frozenset())

    def _is_left(self, dataset: str, ids: pl.Series, path: Path) -> pl.Series:
        """Tell which records are not deleted."""
        deletes = self._settings.deletes.get(dataset)
        if not deletes:
            return pl.repeat(True, len(ids), eager=True)
        gone = deletes.mask(ids, path)
        self._counts[f"s2_{dataset}_deleted"] += int(gone.sum())
        return ~gone

    def texts(
        self,
        dataset: str,
        kind: type[WithId],
        table: Callable[[Decoded[WithId]], pl.DataFrame],
    ) -> Read:
        """Write the texts of marked papers to their buckets; of others the corpus id only."""
        for path in self._of(dataset):
            for batch in decoded(path, kind):
                ids = shards.keys([record.corpusid for record in batch.records])
                yield from self._rejects(path, batch, ids.is_null())
                self._counts[f"s2_{dataset}"] += len(ids)
                left = self._is_left(dataset, ids, path) & ids.is_not_null()
                marked = self._marks.found(ids) & left
                others = ids.filter(left & ~marked).to_frame()
                found = [table(batch.chosen(marked)), others]
                self._spilled[dataset].add(pl.concat(found, how="diagonal"))

    def citations(self) -> Read:
        """Date the citations of marked papers, by the buckets of those that cite."""
        for path in self._of("citations"):
            for batch in decoded(path, shards.Citation):
                yield from self._rejects(path, batch)
                edges = shards.edges(batch)
                whole = edges.drop_nulls()
                self._counts["s2_citations"] += edges.height
                self._counts["s2_citations_half"] += edges.height - whole.height
                self._spilled["citing"].add(whole.filter(self._marks.found(whole["cited"])))
        for number in range(self._n) if self._of("citations") else ():
            edges = self._spilled["citing"].take(number)
            pairs = edges.unique()
            self._counts["s2_citations_repeated"] += edges.height - pairs.height
            months = self._spilled["papers"].read(number, ["corpusid", "updated", "month"])
            months = months.drop_nulls("corpusid").sort("corpusid", "updated", "month")
            dated = pairs.join(months.unique("corpusid", keep="last"), on="corpusid", how="left")
            dated = dated.select(corpusid="cited", month=pl.col("month").fill_null(UNKNOWN))
            self._spilled["cited"].add(
                dated.group_by("corpusid", "month").agg(n=pl.len().cast(pl.Int64))
            )

    def joined(self) -> Read:
        """Join bucket by bucket, and yield the records by shard."""
        paths = self._of("papers")
        named = [day for day in map(rows.release_day, paths) if day]
        as_of = max(named, default=self._newest[:10]) or None
        for number in range(self._n):
            papers = (
                self._spilled["papers"]
                .take(number)
                .with_columns(
                    citations_as_of=pl.lit(as_of, pl.String),
                    citations_dated=pl.lit(None, pl.String),
                )
            )
            for name in ("abstracts", "tldrs"):
                texts = self._spilled[name].take(number)
                papers = with_texts(papers, texts, self._counts, f"s2_{name}")
            if self._of("citations"):
                dated = self._spilled["cited"].take(number)
                papers = with_dated(papers.drop("citations_dated"), dated, self._counts)
            papers = newest_first(papers, self._counts)
            for of_file in papers.partition_by("file", maintain_order=True):
                path = paths[int(of_file["file"][0])]
                for batch in rows.raw(of_file).iter_slices(BATCH_RECORDS):
                    yield path, Batch(batch, pl.DataFrame(schema=shards.REJECTS), _COLUMNS)
