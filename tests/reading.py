"""Reading a file by the reader that is found for it, in tests."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from hindsight_fast.papers import readers
from hindsight_fast.papers.readers import Given, streams


def read(path: Path, format: str = "auto", limit: int | None = None) -> list[readers.Batch]:
    """Batches of a file, with the reader that its content, or `format`, asks for."""
    head = streams.head(path)
    return list(readers.find(path, head, format).read(path, head, Given(limit=limit)))


def raw(path: Path, format: str = "auto") -> list[dict[str, Any]]:
    """Raw records of a file, each without its nulls; none of its records is a reject."""
    batches = read(path, format)
    assert sum(batch.rejects.height for batch in batches) == 0, batches[0].rejects.rows()
    records = pl.concat([batch.records for batch in batches]).to_dicts()
    return [{name: value for name, value in each.items() if value is not None} for each in records]


def rejects(path: Path, format: str = "auto") -> dict[int, str]:
    """Reasons of a file's rejects, by line."""
    return {
        line: reason
        for batch in read(path, format)
        for line, reason in batch.rejects.select("line", "reason").rows()
    }


def write_lines(path: Path, records: Sequence[object]) -> Path:
    """Write records as JSON lines."""
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def write_json(path: Path, content: object, indent: int | None = None) -> Path:
    """Write a JSON document."""
    path.write_text(json.dumps(content, indent=indent))
    return path
