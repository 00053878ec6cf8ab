"""A pool, opened."""

import os
import warnings
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindsight_fast import projection
from hindsight_fast.agreement import Agreement
from hindsight_fast.config import MAX_K, fingerprint
from hindsight_fast.errors import ArtefactError, UsageError
from hindsight_fast.impact import in_words
from hindsight_fast.pool import _own_index
from hindsight_fast.storage import Manifest, full_hash_once, is_trusted, map_array, open_with
from hindsight_fast.storage import trust as remember
from hindsight_fast.store import Store, Vectors
from hindsight_fast.version import __version__
from hindsight_kernels import Projected

if TYPE_CHECKING:
    from hindsight_fast.index import Index

KIND = "pool"
IMPACT = "impact.npy"
UNNOTED = (
    "that could not be noted in the user's own folder ($HINDSIGHT_HOME), which can't be written to "
    "or is others' to write"
)
_MAX_ROWS = 2**31 - 1


class Pool:
    """The papers of a window, with impact; use `Pool.open`.

    Rows are counted from the start of the window's slice of the store.

    Attributes
    ----------
    path : Path
    manifest : Manifest
    store : Store
    offset, n : int
        The slice is rows offset ... offset + n - 1 of the store.
    n_papers : int
        How many of the n rows are eligible.
    vectors : ndarray of shape (n, d), float32, read-only
    impact : ndarray of shape (n,), float32, read-only
        Between 0 and 1; -1 where not eligible.
    trusted : bool
        This user made the pool, or trusts who did. Of others' pools index and projection are not
        used (`_own_index` says why); all else of a pool is data, and its author's claim.
    vectors_hash : str
        Of all vectors of the store.
    index : Index or None
        Of a pool that isn't trusted, the one that `make_index` made.
    projection : Projected or None
        What the exact scan looks at first; none in pools of few papers and in older ones, nor
        where the store's vectors are no longer those that it was made of, byte for byte, nor in
        pools that aren't trusted.
    k, theta : int, float
        Defaults for scoring.
    cutoff, until, start : datetime.date
        T, E, and the first day of the window.
    first_public_only : bool
        Papers that only a venue or a year dates are left out.
    where, topics : list of str
        Conditions that its papers meet, and topics of which they have one (`Where`).
    recipe : str
        How impact was computed.
    encoder, encoder_fingerprint, precision, text_version
        What made the vectors.
    precision_cost : dict or None
        What that precision did to a sample of them (`Agreement.facts`), where it was measured.
    taken : list of str
        What of the vectors was taken over from elsewhere (`Vectors.taken`).
    check : dict or None
        How those agree with the encoder's own (`published.Check.facts`), where it was looked at.
    pool_hash : str
        Hash of papers, window and impact.
    citations_as_of : str
        Month or year in which citations were counted, two with dots between, or "unknown".
    coverage : dict
        What a score on this pool rests on.
    """

    def __init__(
        self, path: Path, manifest: Manifest, store: Store, *, trusted: bool = False
    ) -> None:
        self.path, self.manifest, self.store = path, manifest, store
        self.trusted = trusted or is_trusted(manifest.hash)
        _check_store(manifest, store)
        self.offset = manifest.integer("offset", high=_MAX_ROWS)
        self.n = manifest.integer("n", high=_MAX_ROWS)
        self.n_papers = manifest.integer("n_papers", high=self.n)
        self.k = manifest.integer("k", 1, MAX_K)
        self.theta = manifest.real("theta", -1, 1)
        self.cutoff, self.until, self.start = (
            manifest.date(key) for key in ("cutoff", "until", "start")
        )
        self.recipe = manifest.text("recipe", 64)
        self.encoder = manifest.text("encoder", 64)
        self.encoder_fingerprint = manifest.text("encoder_fingerprint", 128)
        self.text_version = manifest.integer("text_version")
        self.pool_hash = manifest.text("pool_hash", 64)
        self.first_public_only = manifest.flag("require_first_public")
        self.where = manifest.texts("where")
        self.topics = manifest.texts("topics")
        self._citations_range = (
            manifest.integer("citations_low"),
            manifest.integer("citations_high"),
        )
        self.citations_as_of = manifest.text("citations_as_of", 64)
        self.coverage = manifest.table("coverage")
        manifest.file(IMPACT)
        self.impact: NDArray[np.float32] = map_array(path / IMPACT, np.float32, (self.n,))
        eligible = self.impact >= 0
        if not ((self.impact == -1) | (eligible & (self.impact <= 1))).all():
            raise ArtefactError(f"{path}: an impact is not between 0 and 1; make the pool again")
        if int(eligible.sum()) != self.n_papers:
            raise ArtefactError(f"{path}: its impact is not that of {self.n_papers:,} papers")
        of_store = self._vectors()
        self.vectors: NDArray[np.float32] = of_store.array[self.offset : self.offset + self.n]
        self.precision = of_store.precision
        self.precision_cost = _measured(of_store.manifest, "precision_cost")
        self.taken = of_store.taken
        self.check = _measured(of_store.manifest, "check")
        self.vectors_hash = of_store.content_hash
        self.index = self._view_index()
        self.projection = self._projection(of_store)

    @classmethod
    def open(
        cls, path: str | Path, store: Store | str | Path | None = None, *, trust: bool = False
    ) -> "Pool":
        """Open a pool with its store; files are mapped, not read.

        Parameters
        ----------
        store
            The store, where it is no longer where it was relative to the pool.
        trust
            Open the pool's index and use its projection though somebody else made them, now and
            from now on: they can crash this process, or worse, if that person wants it. A warning
            says so where that can't be remembered.

        Raises
        ------
        ArtefactError
            The pool or its store is missing, damaged or something else, or the store is not the one
            that the pool was made from.
        """
        folder = Path(path)

        def read(found: Manifest) -> Pool:
            return cls(folder, found, _find_store(folder, found, store), trusted=trust)

        opened = open_with(folder, KIND, read)
        if trust and not remember(opened.manifest.hash):
            warnings.warn(f"{path} is trusted for this time only: {UNNOTED}", stacklevel=2)
        return opened

    @property
    def set_aside(self) -> list[str]:
        """What the pool holds and nobody uses, since somebody else made it: "index", ..."""
        parts, body = {"index": "index", "scan": "projection"}, self.manifest.body
        return [p for key, p in parts.items() if not self.trusted and body.get(key) is not None]

    def make_index(
        self,
        threads: int | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        """Make `index` anew where the pool has one that isn't trusted; the next time it is there.

        Parameters
        ----------
        progress
            Called with the number of papers in the index, and of all that go there.

        Raises
        ------
        UsageError
            The pool has no index.
        ArtefactError
            The pool's vectors are damaged.
        StorageError
            It can't be kept in the user's own folder.
        """
        config = _own_index.settings(self.manifest)
        if config is None:
            raise UsageError(
                "search = index, but the pool has no index: build it with `pool --index`, "
                "or score with --search exact"
            )
        if self.index is None:
            eligible = np.asarray(self.impact) >= 0
            self.index = self._whole(
                _own_index.make(
                    self.manifest,
                    config,
                    self.vectors_hash,
                    self.vectors,
                    eligible,
                    threads,
                    progress,
                )
            )

    def lookup(self, rows: NDArray[np.integer[Any]]) -> pl.DataFrame:
        """Name a few papers: id, title, venue, date, date_precision, citations, url.

        Parameters
        ----------
        rows : ndarray of shape (m,)
            Rows of the pool.

        Raises
        ------
        IndexError
            A row is negative or too large.
        """
        wanted = rows.astype(np.int64)
        if wanted.size and (wanted.min() < 0 or wanted.max() >= self.n):
            raise IndexError(f"rows must be from 0 to {self.n - 1}")
        return self.store.lookup(wanted + self.offset)

    def signature(self, k: int, theta: float, search: str, idea_precision: str = "float32") -> str:
        """Return the line that says exactly how a score was made; float32 goes without saying."""
        window = f"T={self.cutoff} E={self.until}"
        if self.start != self.cutoff:
            window += f" from={self.start}"
        if self.first_public_only:
            window += " first_public_only"
        if self.where:
            window += f" where={' and '.join(f'({one})' for one in self.where)!r}"
        if self.topics:
            window += f" topics={', '.join(self.topics)!r}"
        sides = {"paper_precision": self.precision, "idea_precision": idea_precision}
        made_in = "".join(f" {side}={made}" for side, made in sides.items() if made != "float32")
        if self.taken:
            made_in += f" taken={fingerprint(self.taken)[:8]}"
        return (
            f"HindSight recipe={self.recipe} {window} K={k} theta={theta!r} "
            f"encoder={self.encoder}@{self.encoder_fingerprint[:8]}{made_in} "
            f"pool={self.n_papers}@{self.pool_hash[:8]} citations={self.citations_as_of} "
            f"search={search} hindsight_fast={__version__}"
        )

    def impact_in_words(self, citations: int | None, impact: float) -> str:
        """Say how the impact of one of its papers came about."""
        return in_words(self.recipe, citations, impact, *self._citations_range)

    def _vectors(self) -> Vectors:
        """The store's vectors, if they are those that it was made with."""
        vectors = self.store.vectors(self.encoder)
        if vectors.encoder_fingerprint != self.encoder_fingerprint:
            raise ArtefactError(
                f"{self.path} was made with {self.encoder}@{self.encoder_fingerprint[:8]}, its "
                f"store now has vectors of {self.encoder}@{vectors.encoder_fingerprint[:8]}; make "
                "the pool again"
            )
        made_in = self.manifest.body.get("precision", "float32")  # older pools don't say
        if vectors.precision != made_in:
            raise ArtefactError(
                f"{self.path} was made with {made_in} vectors, its store now has "
                f"{vectors.precision} ones; make the pool again"
            )
        if vectors.taken != self.manifest.body.get("taken", []):
            raise ArtefactError(
                f"{self.path} was made before its store took over other vectors from elsewhere, or "
                "encoded its papers itself; make the pool again"
            )
        if vectors.since is not None and vectors.since > self.start:
            raise ArtefactError(
                f"{self.path} starts on {self.start}, its store now has vectors since "
                f"{vectors.since} only; encode the rest again"
            )
        if (self.offset, self.offset + self.n) != self.store.window(self.start, self.until):
            raise ArtefactError(f"{self.path}: its rows are not those of its window")
        return vectors

    def scan_products(self, k: int) -> float:
        """What an exact scan for the k nearest costs, about, in products per paper and idea."""
        along_all = float(self.vectors.shape[1])
        if self.projection is None:
            return along_all
        return min(along_all, projection.cost(self.manifest.table("scan"), k))

    def _projection(self, vectors: Vectors) -> Projected | None:
        """The projection, if it is of just these vectors: bounds of others may be wrong."""
        if self.manifest.body.get("scan") is None:
            return None
        facts = self.manifest.table("scan")
        if "of" not in facts:
            raise ArtefactError(f"{self.path}: no facts of a projection; make the pool again")
        for name in projection.FILES:
            self.manifest.file(name)
        if facts["of"] != vectors.content_hash or not self.trusted:
            return None
        if not projection.is_current(facts):
            return None
        for name in projection.FILES:
            full_hash_once(self.path / name, self.manifest.file(name))
        return projection.open_projection(self.path, facts, *self.vectors.shape)

    def _view_index(self) -> "Index | None":
        config = _own_index.settings(self.manifest)
        if config is None:
            return None
        if self.trusted:
            others = (IMPACT, *projection.FILES)
            return self._whole(_own_index.view(self.path, self.manifest, others, config))
        return _own_index.find(self.manifest, config, self.vectors_hash)

    def _whole(self, index: "Index") -> "Index":
        if index.n_papers != self.n_papers:
            raise ArtefactError(
                f"{self.path}: row count mismatch, {index.n_papers} papers in the index and "
                f"{self.n_papers} in the pool; make it again"
            )
        return index


@contextmanager
def damage(pool: Pool) -> Generator[None]:
    """Kernels refuse what can't be vectors of a pool that was opened whole.

    Raises
    ------
    ArtefactError
        In place of their ValueError.
    """
    try:
        yield
    except ValueError as error:
        raise ArtefactError(
            f"the vectors of {pool.path} were damaged since it was opened ({error}); "
            f"`hindsight-fast verify {pool.path}` says where"
        ) from error


def _find_store(path: Path, manifest: Manifest, given: Store | str | Path | None) -> Store:
    if isinstance(given, Store):
        return given
    if given is not None:
        return Store.open(given)
    place = Path(os.path.normpath(Path(os.path.realpath(path)) / manifest.text("store")))
    if not place.is_dir():
        raise ArtefactError(
            f"{path} was made from a store that should be at {place}, and isn't; put it there "
            "again, or say where it is"
        )
    return Store.open(place)


def _measured(manifest: Manifest, key: str) -> dict[str, Any] | None:
    """Facts about vectors, among them an `Agreement`, if there are any."""
    if manifest.body.get(key) is None:
        return None
    facts = manifest.table(key)
    try:
        if (agreement := Agreement.from_facts(facts)) is not None:
            f"{agreement.n:,} {agreement.in_words()} {agreement.similarity_error or 0:g}"
    except (TypeError, ValueError) as error:
        raise ArtefactError(f"{manifest.folder}: '{key}' holds no numbers: {error}") from error
    return facts


def _check_store(manifest: Manifest, store: Store) -> None:
    for key, found, what in (
        ("content_id", store.content_id, "papers or texts"),
        ("facts_id", store.facts_id, "dates, venues or citations"),
    ):
        if manifest.text(key, 64) != found:
            raise ArtefactError(
                f"{manifest.folder} was made from other {what} than {store.path} now holds; "
                "make the pool again"
            )
