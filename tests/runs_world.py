"""Runs of a few small parts, for tests that end them early and look at what they wrote."""

import json
from collections.abc import Callable, Generator, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from hindsight_fast import Scorer, runs
from hindsight_fast.encoders import Encoder
from hindsight_models import Encoded, Progress
from scoring_world import made_up_ideas

BATCH, N = 8, 60  # ideas of a part, and in all; two more are bad
FORMS = {
    "parquet": ("s.parquet", "m.parquet"),
    "csv": ("s.csv", "m.csv"),
    "jsonl": ("s.jsonl", "m.jsonl"),
    "shards": ("s", "m"),
}


class Watched(Encoder):
    """A real encoder that remembers how many texts it was given."""

    n_texts = 0

    def encode_counted(
        self, pairs: Sequence[tuple[str, str]], progress: Progress | None = None
    ) -> Encoded:
        """Like `Encoder.encode_counted`."""
        self.n_texts += len(pairs)
        return super().encode_counted(pairs, progress)

    def encode_chunks(
        self, chunks: Iterable[Sequence[tuple[str, str]]], progress: Progress | None = None
    ) -> Generator[Encoded]:
        """Like `Encoder.encode_chunks`."""
        yield from super().encode_chunks(chunks, progress)


def write_ideas(path: Path, **more: str) -> Path:
    """Ideas of every shape, which have these fields too, and lines that are none."""
    made = [one | more for one in made_up_ideas(N - 1)]
    records: list[Any] = [*made, {"id": "i2", "text": "no"}, {"text": ""}]
    path.write_text("".join(json.dumps(one) + "\n" for one in records) + "{broken\n")
    return path


def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of a few ideas, and shards of two parts."""
    monkeypatch.setattr("hindsight_fast.runs._job.BATCH", BATCH)
    monkeypatch.setattr("hindsight_fast.runs._job.SHARD", 2 * BATCH)


class Stopped(BaseException):
    """What a signal raises."""


def stop_after(n: int) -> Callable[[int, int], None]:
    """Progress that ends a run once n ideas are done."""

    def progress(done: int, total: int) -> None:
        assert total == N + 2
        if done >= n:
            raise Stopped

    return progress


def score(scorer: Scorer, ideas: Path, folder: Path, form: str = "parquet", **options: Any) -> Any:
    """Score into a folder, scores and matches in one form."""
    out, matches = (folder / name for name in FORMS[form])
    return runs.score_file(scorer, ideas, out, matches=matches, **options)


def stopped(scorer: Scorer, ideas: Path, folder: Path, form: str = "parquet", n: int = 20) -> Path:
    """A run that ended after the part that holds idea n; returns its working folder."""
    with pytest.raises(Stopped):
        score(scorer, ideas, folder, form, progress=stop_after(n))
    out = folder / FORMS[form][0]
    assert not out.exists()
    return out.with_name(f".{out.name}.work")


def tables(folder: Path) -> dict[str, bytes]:
    """What a run wrote there, but for manifests."""
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for file in folder.rglob("*")
        if file.is_file() and not file.name.endswith(("manifest.json", "ideas.jsonl"))
    }


def told(summary: dict[str, Any]) -> dict[str, Any]:
    """What a summary says but for times, and for what became of earlier work."""
    left_out = {"seconds", "written", "resumed", "parts_lost", "n_nominated"}
    return {name: value for name, value in summary.items() if name not in left_out}


def flip(path: Path, at: int) -> None:
    """Change one bit of a file."""
    raw = bytearray(path.read_bytes())
    raw[at] ^= 1
    path.write_bytes(raw)
