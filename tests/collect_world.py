"""Collecting from a small server that speaks the two APIs: what its tests share."""

import gzip
from collections.abc import Generator
from datetime import date
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from api_server import Api, serving
from hindsight_fast.papers import readers, topics
from hindsight_fast.papers.collect import (
    S2,
    Manners,
    Query,
    Service,
    Watch,
    Window,
    collect,
    queries_of,
)
from hindsight_fast.papers.readers import Given, streams

KEY = "a-secret-key-0123456789"
QUERY = (Query("query", '"reasoning"'),)
TWO = queries_of(S2, topics.named(topics.load(), ["reasoning", "graph learning"]))
QUICK = Manners(rate=2000, timeout_s=0.5)
DATES = Window(date(2023, 6, 1), date(2025, 12, 31))
PAGES = 3  # of 12 papers, 5 on each


def services(monkeypatch: pytest.MonkeyPatch) -> Generator[Api]:
    """The services, which this process asks instead of the real ones."""
    with serving() as one:
        for name in ("S2_API_KEY", "SEMANTIC_SCHOLAR_API_KEY"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("OPENALEX_API_KEY", KEY)
        monkeypatch.setenv("HINDSIGHT_S2_URL", one.url)
        monkeypatch.setenv("HINDSIGHT_OPENALEX_URL", one.url + "/")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
        yield one


def gather(
    out: Path,
    service: Service = S2,
    queries: tuple[Query, ...] = QUERY,
    *,
    max_spend: float = 1.0,
    manners: Manners = QUICK,
    overwrite: bool = False,
    watch: Watch | None = None,
) -> dict[str, Any]:
    return collect(
        service,
        queries,
        DATES,
        out,
        max_spend=max_spend,
        manners=manners,
        overwrite=overwrite,
        watch=watch or Watch(),
    )[0]


def as_read(out: Path) -> pl.DataFrame:
    """The raw answers as the readers give them, the slow and obvious way."""
    frames = list[pl.DataFrame]()
    for path in sorted((out / "raw").iterdir()):
        head = streams.head(path)
        reader = readers.find(path, head, "auto")
        frames += [batch.records for batch in reader.read(path, head, Given())]
    return pl.concat(frames).drop("line")


def partial(out: Path) -> Path:
    return out.with_name(f".{out.name}.partial")


def bytes_below(folder: Path) -> bytes:
    """All that is written in a folder, what is compressed in clear, and the names."""
    found = [str(folder).encode()]
    for path in folder.rglob("*"):
        found.append(str(path).encode())
        if path.is_file():
            content = path.read_bytes()
            found += [content, gzip.decompress(content) if path.suffix == ".gz" else b""]
    return b"\n".join(found)
