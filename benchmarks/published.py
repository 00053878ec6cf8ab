"""How fast published vectors are read: MB of text per second, plain and .gz, beside other ways.

    python -m benchmarks.published [--megabytes 1000] [--threads 2] [--json out.json]

A shard as Semantic Scholar writes them, of made-up vectors: 768 float32, each as the decimals of a
float64. It lies in the folder for temporary files and is removed afterwards. Every way ends with
unit float32 vectors, and right means: the same as Python's float and numpy give, to 1e-6.

- ours: `open_published`, with the papers found by corpus id;
- polars: read_ndjson, then split at the commas and cast;
- Python: json and numpy, line by line.

The two others read only the first records; they are no faster for being asked for more. A .gz file
is read through the standard library by all but polars, which has its own.
"""

import argparse
import gzip
import json
import resource
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from benchmarks.measure import in_words, interleaved, machine, median, table, write_json
from hindsight_fast.papers.schema import PAPER_SCHEMA, REJECT_SCHEMA, PaperTable
from hindsight_fast.published import open_published
from hindsight_fast.store import Store, build_store
from hindsight_models import Card

DIM, DISTINCT, FEW = 768, 2000, 4000
CARD = Card(
    name="made-up", dim=DIM, pooling="cls", separator="[SEP]", max_tokens=512, theta=0.96,
    theta_note="none", files={"model.onnx": "0" * 64, "tokenizer.json": "0" * 64},
    published_as=("specter_v2",),
)  # fmt: skip
Read = Callable[[], NDArray[np.float32]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = measure(Path(folder), arguments.megabytes, arguments.threads, arguments.repeats)
    facts = machine("numpy", "numba", "polars")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{in_words(facts)}; {arguments.threads} threads")
    print(table(rows))
    print(f"peak memory of this process: {peak:.0f} MiB")
    write_json(arguments.json, {"machine": facts, "rows": rows, "peak_MiB": peak})


def measure(place: Path, megabytes: int, threads: int, repeats: int) -> list[dict[str, Any]]:
    """One row for each way and file."""
    plain, few = place / "shard.jsonl", place / "few.jsonl"
    n = write(plain, records(), megabytes * 1_000_000)
    write(few, islice(records(), FEW), 1 << 40)
    compressed = [compress(path) for path in (plain, few)]
    store = store_of(place / "store", n)
    right = by_python(few)
    rows = list[dict[str, Any]]()
    for whole, part in ((plain, few), (compressed[0], compressed[1])):
        ways: dict[str, tuple[Path, Read]] = {
            "ours": (plain, partial(ours, whole, store, threads)),
            "polars": (few, partial(by_polars, part)),
            "Python": (few, partial(by_python, part)),
        }
        seconds = interleaved({name: read for name, (_, read) in ways.items()}, repeats)
        for name, (text, read) in ways.items():
            size, found = text.stat().st_size / 1e6, read()
            both = min(len(found), FEW)
            rows.append(
                {
                    "file": whole.suffix,
                    "way": name,
                    "MB": size,
                    "MB/s": size / median(seconds[name]),
                    "vectors/s": (n if name == "ours" else FEW) / median(seconds[name]),
                    "right": bool(np.allclose(found[:both], right[:both], rtol=0, atol=1e-6)),
                }
            )
    return rows


def records() -> Iterator[bytes]:
    """Lines of a shard without end; the vectors come again after `DISTINCT`."""
    rng = np.random.default_rng(0)
    vectors = (rng.standard_normal((DISTINCT, DIM)) * 0.8).astype(np.float32)
    texts = [str(vector) for vector in vectors.astype(float).tolist()]
    number = 0
    while True:
        record = {
            "corpusid": number,
            "model": "specter_v2",
            "vector": texts[number % DISTINCT],
            "updated": "2024-01-01T00:00:00Z",
        }
        yield json.dumps(record, separators=(",", ":")).encode() + b"\n"
        number += 1


def write(path: Path, lines: Iterable[bytes], at_most: int) -> int:
    """Write lines up to so many bytes; returns how many lines."""
    size = n = 0
    with path.open("wb") as file:
        for line in lines:
            size += len(line)
            if size > at_most:
                break
            file.write(line)
            n += 1
    return n


def compress(path: Path) -> Path:
    compressed = path.with_suffix(".gz")
    with path.open("rb") as source, gzip.open(compressed, "wb", 6) as target:
        while piece := source.read(1 << 22):
            target.write(piece)
    return compressed


def store_of(path: Path, n: int) -> Store:
    """A store of made-up papers with corpus ids 0 ... n - 1, row by row."""
    columns: dict[str, Any] = {
        "id": [f"p{i:08d}" for i in range(n)],
        "title": [f"Made-up paper {i}" for i in range(n)],
        "abstract": [f"Abstract {i}." for i in range(n)],
        "corpus_id": np.arange(n),
        "status": "ok",
    }
    papers = pl.DataFrame(columns).select(
        (pl.col(name) if name in columns else pl.lit(None)).cast(kind).alias(name)
        for name, kind in PAPER_SCHEMA.items()
    )
    counts = {"n_in": n, "n_papers": n, "n_merged": 0, "n_rejects": 0}
    return build_store(PaperTable(papers, pl.DataFrame(schema=REJECT_SCHEMA), counts), path)


def ours(path: Path, store: Store, threads: int) -> NDArray[np.float32]:
    """The first vectors; the others are read and dropped."""
    [file] = open_published([path], store, CARD, threads=threads)
    first, kept = list[NDArray[np.float32]](), 0
    for _, vectors in file:
        if kept < FEW:
            first.append(vectors)
            kept += len(vectors)
    return np.concatenate(first)


def by_polars(path: Path) -> NDArray[np.float32]:
    schema = {"corpusid": pl.Int64, "model": pl.String, "vector": pl.String}
    texts = pl.read_ndjson(path, schema=schema)["vector"]
    parts = [texts[start : start + 500] for start in range(0, len(texts), 500)]
    numbers = [
        part.str.strip_chars("[]").str.split(", ").explode().cast(pl.Float32).to_numpy()
        for part in parts
    ]
    return unit(np.concatenate(numbers).reshape(-1, DIM))


def by_python(path: Path) -> NDArray[np.float32]:
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        vectors = [json.loads(json.loads(line)["vector"]) for line in file]
    return unit(np.array(vectors, np.float32))


def unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    wide = vectors.astype(np.float64)
    result: NDArray[np.float32] = (wide / np.linalg.norm(wide, axis=1, keepdims=True)).astype(
        np.float32
    )
    return result


if __name__ == "__main__":
    began = time.monotonic()
    main()
    print(f"{time.monotonic() - began:.0f} s in all")
