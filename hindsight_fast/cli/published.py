"""What `embed --from-vectors` adds: files to take vectors from, their check, and what is told."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from hindsight_fast.cli import console

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from hindsight_fast.encoders import Encoder
    from hindsight_fast.published import PublishedFile
    from hindsight_fast.store import Store

FromVectors = Annotated[
    list[Path] | None,
    typer.Option(
        "--from-vectors",
        metavar="FILE...",
        help="Take published vectors over and encode only the rest: Semantic Scholar's shards, "
        "parquet tables, or folders of them.",
    ),
]
MoreFiles = Annotated[
    list[Path] | None, typer.Argument(metavar="FILE", help="More files of --from-vectors.")
]
MaxBad = Annotated[
    float,
    typer.Option(
        "--max-bad",
        help="Share of a file's records that may be of no use (one always may, unless 0).",
        min=0,
        max=1,
    ),
]
Force = Annotated[
    bool,
    typer.Option("--force", help="Take published vectors even if they disagree with the model's."),
]

_IDS = {"corpus_id": "corpus id", "doi": "DOI", "arxiv_id": "arXiv id", "id": "id"}
_SHOWN = 5


class Source(NamedTuple):
    """Files to take vectors from, and how strictly."""

    files: list[Path]
    max_bad: float
    force: bool

    def open(self, store: "Store", encoder: "Encoder") -> "list[PublishedFile]":
        """The files as `embed_store` takes them."""
        from hindsight_fast.published import open_published

        threads = encoder.threads
        return open_published(
            self.files, store, encoder.card, max_bad=self.max_bad, threads=threads
        )

    def check(
        self,
        store: "Store",
        encoder: "Encoder",
        rows: "NDArray[np.int64]",
        read: "Callable[[NDArray[np.int64]], NDArray[np.float32]]",
    ) -> Mapping[str, Any]:
        """Encode some of the papers again, and tell how the vectors agree."""
        from hindsight_fast.published import SAMPLE, check_published

        n = min(SAMPLE, len(rows))
        console.note(f"encoding {n} of {len(rows):,} papers with a published vector, to compare")
        return check_published(store, encoder, rows, read, force=self.force).facts()


def source_of(
    files: list[Path] | None, more: list[Path] | None, max_bad: float, force: bool
) -> Source | None:
    """Where vectors are to be taken from, if from anywhere."""
    from hindsight_fast.errors import UsageError

    if files:
        return Source([*files, *(more or [])], max_bad, force)
    if more:
        raise UsageError(f"{more[0]}: one store is expected; files of vectors need --from-vectors")
    if force:
        raise UsageError("--force is about published vectors; name them with --from-vectors")
    return None


def lines(summary: Mapping[str, Any]) -> list[str]:
    """What became of published vectors, for a person."""
    counts: Mapping[str, int] = summary["taken_counts"]
    counts = {name.removeprefix("published_"): n for name, n in counts.items()}
    if not counts.get("records"):
        return []
    kinds = [f"{n:,} by {told}" for key, told in _IDS.items() if (n := counts[f"by_{key}"])]
    told = [
        f"{summary['n_taken']:,} of {summary['n_papers']:,} papers have a published vector"
        + (f" ({', '.join(kinds)})" if kinds else "")
    ]
    others = [
        f"{counts['not_in_store']:,} of papers that the store lacks",
        *([f"{counts['repeated']:,} of papers seen before"] if counts["repeated"] else []),
        *(f"{n:,} bad ({_words(key)})" for key, n in counts.items() if key[:4] == "bad_" and n),
    ]
    told.append(f"{counts['records']:,} records were read: {', '.join(others)}")
    if counts["unnamed"]:
        told.append(
            f"warning: {counts['unnamed']:,} records don't say which model made their vector; "
            "that it was this one rests on the comparison alone"
        )
    return [*told, *_check_lines(summary["check"])]


def _words(key: str) -> str:
    return key.removeprefix("bad_").replace("_", " ")


def _check_lines(check: Mapping[str, Any] | None) -> list[str]:
    if check is None:
        return ["warning: no published vector was taken, so none was compared"]
    cosines = ", ".join(
        f"{told} {check[f'cosine_{key}']:.6f}"
        for key, told in (
            ("mean", "mean"), ("p50", "median"), ("p5", "5%"), ("p1", "1%"), ("min", "least"),
        )
    )  # fmt: skip
    told = [f"{check['n']:,} of them encoded again: cosine {cosines}"]
    if check["similarity_error"] is not None:
        told[0] += f"; similarities move by up to {check['similarity_error']:.2g}"
    if check["far"]:
        shown = [f"{paper} ({cosine:.3f})" for paper, cosine in check["far"].items()]
        more = f" and {len(shown) - _SHOWN:,} more" if len(shown) > _SHOWN else ""
        told.append(
            f"far below the mean, so published of another text: {', '.join(shown[:_SHOWN])}{more}"
        )
    if not check["passed"]:
        told.append("warning: these are not the model's own vectors; taken because of --force")
    return told
