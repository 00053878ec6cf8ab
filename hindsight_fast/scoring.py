"""Ideas to scores: text, vectors, candidates, one kernel, one row of the score table per idea."""

import os
import time
from collections.abc import Collection, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindsight_fast.candidates import Choice
from hindsight_fast.config import ScoreConfig, usable_threads
from hindsight_fast.encoding import VectorCache, encode_texts
from hindsight_fast.errors import UsageError
from hindsight_fast.idea_text import IdeaText, idea_texts
from hindsight_fast.ideas import TEXT_FIELDS, Idea, ideas_frame
from hindsight_fast.meeting import TextEncoder, check_precision, check_same_space, check_unit_rows
from hindsight_fast.pool import Pool, damage
from hindsight_fast.scanning import Scan
from hindsight_fast.tables import TEXT_COLUMNS, matches_table, score_table
from hindsight_kernels import Matches, match

INDEX_CANDIDATES = 3
"""Unless `Scorer.candidates` says otherwise, an index nominates this many times K papers, so that
its own order need not be exact."""

AUTO_EXACT_SHARE = 0.1
"""`search="auto"` scans exactly while that costs at most this share of the encoding."""

CANDIDATE_FLOPS = 1.6e5
"""Operations of an exact scan on a processor, in the products of `Scan.products`, in the time in
which an index looks at one candidate more (ef). Of a million papers, two threads: a scan takes as
long as a search with ef 1,700 on a Xeon with AMX (by bytes; interpolated), 3,100 on Zen 3 (in
float32 along as many axes); this lies between the two."""

_in_forked_child = False


def _note_fork() -> None:
    global _in_forked_child
    _in_forked_child = True


os.register_at_fork(after_in_child=_note_fork)


def refuse_forked_child() -> None:
    """Polars' threads don't survive a fork: what waits for them waits for ever.

    Raises
    ------
    UsageError
        This is the child of a fork.
    """
    if _in_forked_child:
        raise UsageError(
            "this process was forked after hindsight_fast.scoring was imported, and polars can't "
            "work in such a child: start it with multiprocessing's 'spawn', or import in the child"
        )


@dataclass(frozen=True, slots=True)
class Scored:
    """One batch of ideas, scored.

    Attributes
    ----------
    scores : polars.DataFrame
        Columns of `tables.SCORE_SCHEMA`, n rows.
    vectors : ndarray of shape (m, d), float32
        Unit vectors of the m ideas that could be scored.
    matches : Matches
        What the kernel found for those m.
    scored : ndarray of shape (m,), int64
        Their places among the n.
    shapes : list of str
        What each of the n was made of (`IdeaText.shape`).
    n_retried : int
        Of the m, how many were no finite unit vector at first, and were encoded in float32.
    """

    scores: pl.DataFrame
    vectors: NDArray[np.float32]
    matches: Matches
    scored: NDArray[np.int64]
    shapes: list[str]
    n_retried: int


class Scorer:
    """Scores ideas against a pool by the published recipe.

    Parameters
    ----------
    pool
        Where the later papers and their impact are.
    encoder
        The encoder that the pool's vectors come from; None if only `score_vectors` is used.
    k, theta
        Neighbours looked at and similarity of a match; the pool's own by default.
    search
        "exact", "index" or "auto" (exact wherever the scan costs at most a tenth of the encoding or
        no more than a search of the index, or the pool has no index that may be opened). With
        "index", that of a pool which isn't trusted is made anew first (`Pool.make_index`).
    threads
        At most as many as the process may use; all of them by default.
    cache
        Ideas that are there are not encoded again.
    allow
        Precisions that the pool's vectors may have beside float32, float16 and the encoder's own,
        which was named when it was opened.
    scan_device, scan_memory
        Where the exact scan runs: "cpu", "cuda", "cuda:N", or "auto", the GPU that encodes, where
        there is one; and bytes that it may take of a GPU's memory. The results are equal.

    Attributes
    ----------
    exact_scan : Scan
        Its `device` is where the exact scan runs.
    candidates : Choice or None
        How an index is searched, by `candidates.choose`; None: as it is by default. May be set
        before the work begins, and belongs to the signature.
    n_nominated : int
        Papers so far that searches left to the similarity kernel, over all ideas. Of an exact scan
        by several threads it varies by a few.

    Raises
    ------
    EncoderError
        If the encoder is not the one that made the pool's vectors, or these have a precision that
        nobody named.
    ArtefactError
        If the papers' text was cleaned by another rule than ideas are now.
    UsageError
        If an index is asked for and the pool has none, or k or theta make no sense.
    """

    def __init__(
        self,
        pool: Pool,
        encoder: TextEncoder | None = None,
        *,
        k: int | None = None,
        theta: float | None = None,
        search: str = "auto",
        threads: int | None = None,
        cache: VectorCache | None = None,
        allow: Collection[str] = (),
        scan_device: str = "auto",
        scan_memory: int | None = None,
    ) -> None:
        self.pool = pool
        self.encoder = encoder
        self.cache = cache
        self.config = ScoreConfig(
            k=pool.k if k is None else k,
            theta=pool.theta if theta is None else theta,
            search=search,
        )
        self.threads = usable_threads(threads)
        if encoder is not None:
            check_same_space(pool, encoder)
        check_precision(pool, allow if encoder is None else {*allow, encoder.precision})
        self.exact_scan = Scan(
            pool,
            self.config.k,
            threads=self.threads,
            device=scan_device,
            encodes_on="cpu" if encoder is None else encoder.device,
            memory=scan_memory,
        )
        self.search = self._choose_search(search)
        self.seconds = {"text": 0.0, "encode": 0.0, "search": 0.0, "match": 0.0, "table": 0.0}
        self.n_nominated = 0
        self.candidates: Choice | None = None

    @property
    def signature(self) -> str:
        """One line that says exactly how these scores are made."""
        search, setting = self.search, self._setting
        if setting is not None:
            search = f"index:candidates={setting[0]},ef={setting[1]}"
        precision = "float32" if self.encoder is None else self.encoder.precision
        return self.pool.signature(self.config.k, self.config.theta, search, precision)

    def score(self, ideas: Iterable[Idea] | pl.DataFrame) -> pl.DataFrame:
        """Score ideas; columns of `tables.SCORE_SCHEMA`, one row per idea in input order.

        Parameters
        ----------
        ideas
            `Idea` objects, or a frame with any of the columns that a file of ideas may have.

        Raises
        ------
        UsageError
            The scorer has no encoder, or this is a forked child.
        EncoderError
            The model failed.
        ArtefactError
            The pool's vectors were damaged since it was opened.
        """
        return self.score_batch(ideas_frame(ideas)).scores

    def score_vectors(self, vectors: NDArray[np.float32]) -> pl.DataFrame:
        """Score ready unit vectors, shape (n, d), float32: the table without the text columns.

        Raises
        ------
        UsageError
            If shape or dtype are others, or a row is not a finite unit vector.
        """
        refuse_forked_child()
        check_unit_rows(vectors, self.pool.vectors.shape[1])
        frame = pl.DataFrame(
            {"idea_id": [str(i) for i in range(len(vectors))]}, schema={"idea_id": pl.String}
        )
        rows = np.arange(len(vectors), dtype=np.int64)
        table = self._table(frame, ["ok"] * len(vectors), rows, self._timed_match(vectors))
        return table.drop(TEXT_COLUMNS)

    def score_batch(self, frame: pl.DataFrame) -> Scored:
        """Score a frame of ideas (all columns of IDEA_SCHEMA), with vectors and matches."""
        refuse_forked_child()
        if self.encoder is None:
            raise UsageError("this Scorer has no encoder: give one, or use score_vectors")
        with self._timed("text"):
            texts, status = _texts(frame)
            scored = np.flatnonzero(np.array(status, dtype=str) == "ok").astype(np.int64)
        with self._timed("encode"):
            pairs = [(texts[i].head, texts[i].body) for i in scored]
            encoded = encode_texts(self.encoder, pairs, self.cache)
        n_tokens = np.zeros(len(texts), dtype=np.int32)
        truncated = np.zeros(len(texts), dtype=bool)
        n_tokens[scored] = encoded.n_tokens
        truncated[scored] = encoded.truncated | np.array([texts[i].cut for i in scored], dtype=bool)
        matches = self._timed_match(encoded.vectors)
        table = self._table(
            frame.with_columns(pl.Series("n_tokens", n_tokens), pl.Series("truncated", truncated)),
            status,
            scored,
            matches,
        )
        shapes, n_retried = [text.shape for text in texts], int(encoded.retried.sum())
        return Scored(table, encoded.vectors, matches, scored, shapes, n_retried)

    def match_vectors(self, vectors: NDArray[np.float32]) -> Matches:
        """What the chosen search finds for unit vectors, shape (n, d), float32.

        Raises
        ------
        ArtefactError
            The pool's vectors were damaged since it was opened.
        """
        return self.decide(vectors, self._nominate(vectors))

    def match_exactly(self, vectors: NDArray[np.float32]) -> Matches:
        """What the exact scan finds, whatever `search` is; otherwise like `match_vectors`."""
        return self.decide(vectors, self._scan(vectors))

    def nominate(
        self, vectors: NDArray[np.float32], count: int, expansion: int
    ) -> NDArray[np.int32]:
        """Rows of papers that the pool's index holds for nearest, (n, count); see `Index.search`.

        Raises
        ------
        UsageError
            The pool has no index.
        """
        if self.pool.index is None:
            raise UsageError("the pool has no index: build it with `pool --index`")
        return self.pool.index.search(vectors, count, threads=self.threads, expansion=expansion)

    def decide(self, vectors: NDArray[np.float32], candidates: NDArray[np.int32]) -> Matches:
        """The nearest of some candidates, (n, c) rows of papers, and what they are worth.

        Raises
        ------
        ArtefactError
            The pool's vectors were damaged since it was opened.
        """
        pool, config = self.pool, self.config
        with damage(pool):
            return match(
                vectors,
                pool.vectors,
                pool.impact,
                candidates,
                config.k,
                config.theta,
                threads=self.threads,
            )

    @property
    def scan_expansion(self) -> float:
        """Candidates (ef) that an index looks at in the time of an exact scan, about."""
        return self._scan_flops / CANDIDATE_FLOPS

    @property
    def _scan_flops(self) -> float:
        precision = "float32" if self.encoder is None else self.encoder.precision
        return 2.0 * self.pool.n * self.exact_scan.products(precision)

    def matches_table(self, scored: Scored) -> pl.DataFrame:
        """The K nearest papers of each scored idea; columns of `tables.MATCH_SCHEMA`."""
        ids = scored.scores["idea_id"].gather(scored.scored)
        return matches_table(ids, scored.matches, self.pool, self.config)

    def _timed_match(self, vectors: NDArray[np.float32]) -> Matches:
        with self._timed("search"):
            candidates = self._nominate(vectors)
        self.n_nominated += int((candidates >= 0).sum())
        with self._timed("match"):
            return self.decide(vectors, candidates)

    def _nominate(self, vectors: NDArray[np.float32]) -> NDArray[np.int32]:
        setting = self._setting
        return self._scan(vectors) if setting is None else self.nominate(vectors, *setting)

    @property
    def _setting(self) -> tuple[int, int] | None:
        """Papers that the index nominates, and its ef; None of an exact scan."""
        if self.search != "index" or self.pool.index is None:
            return None
        if self.candidates is not None:
            return self.candidates.count, self.candidates.expansion
        return INDEX_CANDIDATES * self.config.k, self.pool.index.expansion_search

    def _scan(self, vectors: NDArray[np.float32]) -> NDArray[np.int32]:
        with damage(self.pool):
            return self.exact_scan.nominate(vectors)

    def _table(
        self, frame: pl.DataFrame, status: list[str], scored: NDArray[np.int64], matches: Matches
    ) -> pl.DataFrame:
        with self._timed("table"):
            return score_table(frame, status, scored, matches, self.pool, self.config)

    def _choose_search(self, wanted: str) -> str:
        if self.pool.index is None and wanted == "index" and self.pool.n_papers > 0:
            self.pool.make_index(self.threads)  # if others made one; else it is refused
        if self.pool.index is None:
            return "exact"
        if wanted != "auto":
            return wanted
        index, encoder = self.pool.index, self.encoder
        if self.scan_expansion <= index.expansion_search:
            return "exact"
        if encoder is None or (encoder.device != "cpu" and self.exact_scan.device == "cpu"):
            return "index"  # beside a GPU's encoding, a scan on the processor is not little
        budget = AUTO_EXACT_SHARE * encoder.flops_per_text
        return "exact" if self._scan_flops <= budget else "index"

    @contextmanager
    def _timed(self, stage: str) -> Generator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[stage] += time.perf_counter() - began


def _texts(frame: pl.DataFrame) -> tuple[list[IdeaText], list[str]]:
    """Text and status of each idea."""
    texts = idea_texts(*(frame[name].fill_null("").to_list() for name in TEXT_FIELDS))
    given = frame["status"].to_list()
    return texts, [
        one if one == "unreadable" else text.status for one, text in zip(given, texts, strict=True)
    ]


def encoded_pairs(frame: pl.DataFrame) -> list[tuple[str, str]]:
    """(head, body) of those ideas of a frame (columns of IDEA_SCHEMA) that can be scored."""
    texts, status = _texts(frame)
    return [(t.head, t.body) for t, one in zip(texts, status, strict=True) if one == "ok"]
