"""How thresholds were chosen: precision and recall by theta on expert-graded paper pairs.

    python -m benchmarks.theta MODEL_FOLDER [--json out.json]

Reads data/links/csfcube_half.jsonl.gz under $HINDSIGHT_SHARED (default ../shared): pairs of a
query paper and a candidate, each graded 0..3 for one to three facets (background, method,
result). A pair counts as related where its highest grade is at least 2. The threshold is the one
with the best F1, in steps of 0.01, the lower on ties.
"""

import argparse
import gzip
import json
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.measure import table, write_json
from hindsight_models import load

SHARED = Path(os.environ.get("HINDSIGHT_SHARED", Path(__file__).resolve().parents[2] / "shared"))
THETAS = np.arange(30, 91) / 100
RELATED = 2


class Pairs(NamedTuple):
    """Texts by paper, and for each pair the rows of its papers and its highest grade."""

    texts: list[tuple[str, str]]
    queries: NDArray[np.int64]
    papers: NDArray[np.int64]
    grades: NDArray[np.int64]


def graded_pairs() -> Pairs:
    """Every pair of two different papers, facets joined by their highest grade."""
    texts: dict[str, tuple[str, str]] = {}
    grades: dict[tuple[str, str], int] = {}
    with gzip.open(SHARED / "data/links/csfcube_half.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            query, paper = row["query_id"], row["paper_id"]
            texts[query] = (row["query_title"], row["query_abstract"])
            texts[paper] = (row["paper_title"], row["paper_abstract"])
            if query != paper:
                grades[query, paper] = max(row["relevance"], grades.get((query, paper), 0))
    place = {key: i for i, key in enumerate(texts)}
    return Pairs(
        list(texts.values()),
        np.array([place[query] for query, _ in grades], np.int64),
        np.array([place[paper] for _, paper in grades], np.int64),
        np.array(list(grades.values()), np.int64),
    )


def by_theta(similarities: NDArray[np.float64], related: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Precision, recall and F1 of each theta, shape (3, thetas)."""
    above = similarities >= THETAS[:, None]
    hits = (above & related).sum(1)
    precision = hits / np.maximum(above.sum(1), 1)
    recall = hits / related.sum()
    f1 = 2 * hits / (above.sum(1) + related.sum())
    return np.array([precision, recall, f1])


def auc(similarities: NDArray[np.float64], related: NDArray[np.bool_]) -> float:
    """Share of (related, unrelated) couples in the right order."""
    inside, outside = similarities[related], np.sort(similarities[~related])
    return float(np.searchsorted(outside, inside).mean() / len(outside))


def resampled(pairs: Pairs, similarities: NDArray[np.float64], draws: int = 1000) -> list[float]:
    """Best thetas when the queries are drawn again with replacement: 5th and 95th percentile."""
    rng = np.random.default_rng(0)
    rows: list[NDArray[np.int64]] = [
        np.flatnonzero(pairs.queries == query) for query in np.unique(pairs.queries)
    ]
    best: list[float] = []
    for _ in range(draws):
        chosen: list[int] = rng.integers(0, len(rows), len(rows)).tolist()
        drawn = np.concatenate([rows[i] for i in chosen])
        related = pairs.grades[drawn] >= RELATED
        best.append(THETAS[np.argmax(by_theta(similarities[drawn], related)[2])])
    return [float(value) for value in np.quantile(best, [0.05, 0.95])]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    encoder = load(arguments.model)
    pairs = graded_pairs()
    vectors = encoder.encode(pairs.texts).astype(np.float64)
    similarities = np.einsum("nd,nd->n", vectors[pairs.queries], vectors[pairs.papers])
    related = pairs.grades >= RELATED
    precision, recall, f1 = by_theta(similarities, related)
    best = int(np.argmax(f1))
    rows = [
        {
            "theta": THETAS[i],
            "pairs": int((similarities >= THETAS[i]).sum()),
            "precision": precision[i],
            "recall": recall[i],
            "F1": f1[i],
        }
        for i in range(len(THETAS))
        if i % 5 == 0 or i == best
    ]
    low, high = resampled(pairs, similarities)
    area = auc(similarities, related)
    print(table(rows))
    print(
        f"{encoder.name}: {len(related)} pairs of {len(np.unique(pairs.queries))} queries, "
        f"{related.sum()} related; AUC {area:.3f}; best F1 at theta {THETAS[best]:.2f} "
        f"(5th to 95th percentile over queries drawn again: {low:.2f} to {high:.2f})"
    )
    result: dict[str, Any] = {
        "model": encoder.name,
        "fingerprint": encoder.fingerprint,
        "pairs": len(related),
        "related": int(related.sum()),
        "auc": area,
        "theta": float(THETAS[best]),
        "theta_5_95": [low, high],
        "median_similarity_by_grade": [
            float(np.median(similarities[pairs.grades == grade])) for grade in range(4)
        ],
        "table": [{key: float(value) for key, value in row.items()} for row in rows],
    }
    write_json(arguments.json, result)


if __name__ == "__main__":
    main()
