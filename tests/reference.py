"""Slow, obvious twins of every fast path. Clear first: no blocking, no tricks."""

import calendar
import datetime as dt
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file  # pyright: ignore[reportUnknownVariableType]
from scipy.special import erf  # type: ignore[import-untyped]


def paper_impact(citations: list[int], top_venue: list[bool], eligible: list[bool]) -> list[float]:
    """h = 0.6 c + 0.4 v of each paper; -1 where not eligible."""
    known = [max(c, 0) for c, e in zip(citations, eligible, strict=True) if e]
    impact: list[float] = []
    for count, top, is_eligible in zip(citations, top_venue, eligible, strict=True):
        if not is_eligible:
            impact.append(-1.0)
            continue
        spread = max(known) - min(known)
        share = (max(count, 0) - min(known)) / spread if spread else 0.0
        impact.append(0.6 * share + 0.4 * (1.0 if top else 0.0))
    return impact


def variant_impact(
    recipe: str, papers: Sequence[Mapping[str, Any]], top: list[bool], eligible: list[bool]
) -> list[float]:
    """h of each paper by a recipe other than the paper's; -1 where it takes no part."""

    def count(paper: Mapping[str, Any]) -> float | None:
        if recipe.endswith("-months"):
            return citations_within(paper, int(recipe.removesuffix("-months")))
        return None if paper["citations"] is None else float(paper["citations"])

    counts = {row: count(paper) for row, paper in enumerate(papers) if eligible[row]}
    known = {row: value for row, value in counts.items() if value is not None}
    share: dict[int, float] = {}
    for row, value in known.items():
        if recipe == "percentile":
            month = _month_of(papers[row])
            others = [known[o] for o in known if o != row and _month_of(papers[o]) == month]
            share[row] = sum(other < value for other in others) / len(others) if others else 0.0
            continue
        scale = math.log1p if recipe == "log" else float
        low, high = scale(min(known.values())), scale(max(known.values()))
        share[row] = (scale(value) - low) / (high - low) if high > low else 0.0
    return [0.6 * share[row] + 0.4 * top[row] if row in share else -1.0 for row in range(len(top))]


def _month_of(paper: Mapping[str, Any]) -> tuple[int, int, bool]:
    return paper["date"].year, paper["date"].month, paper["date_precision"] == "year"


def citations_within(paper: Mapping[str, Any], months: int) -> float | None:
    """Citations in the first months of a paper, a day at a time."""
    date, counted, dated = paper["date"], paper["citations_as_of"], paper["citations_dated"]
    if paper["date_precision"] == "year" or not dated:
        return None
    *tokens, last = dated.split()
    if last.startswith("@"):
        counted = dt.date.fromisoformat(last[1:])
    else:
        tokens.append(last)
    if counted is None:
        return None
    month = date.month - 1 + months
    year, month = date.year + month // 12, month % 12 + 1
    day = min(date.day, calendar.monthrange(year, month)[1])
    until = dt.date(year, month, day)
    if until > counted or int(dated[:4]) > date.year:
        return None
    total = 0.0
    for token in tokens:
        when, number = token.split(":")
        first = dt.date.fromisoformat(f"{when}-01" if "-" in when else f"{when}-01-01")
        last = dt.date(first.year, 12, 31)
        if "-" in when:
            last = first.replace(day=calendar.monthrange(first.year, first.month)[1])
        days = [first + dt.timedelta(i) for i in range((last - first).days + 1)]
        possible = [d for d in days if date <= d <= counted]
        if possible:
            total += int(number) * sum(d < until for d in possible) / len(possible)
        elif first < until:
            total += int(number)
    return total


def choose_date(evidence: list[tuple[str, str, str]]) -> tuple[str, str, str]:
    """One of several dates (start as ISO day, precision, kind) of one paper."""
    kinds = ["first_public", "venue", "year"]
    precisions = ["day", "month", "year"]

    def inside(one: tuple[str, str, str], other: tuple[str, str, str]) -> bool:
        length = {"day": 10, "month": 7, "year": 4}[other[1]]
        finer = precisions.index(one[1]) < precisions.index(other[1])
        as_good = kinds.index(one[2]) <= kinds.index(other[2])
        return finer and as_good and one[0][:length] == other[0][:length]

    left = evidence
    while True:
        best = min(left, key=lambda e: (e[0], kinds.index(e[2]), precisions.index(e[1])))
        left = [each for each in left if inside(each, best)]
        if not left:
            return best


def similarity(query: NDArray[np.float32], paper: NDArray[np.float32]) -> np.float32:
    """float64 sum of 32 lanes, each summed in order, then added pairwise; rounded to float32."""
    products = query.astype(np.float64) * paper.astype(np.float64)
    lanes = np.zeros(32)
    for start in range(0, len(products), 32):
        some = products[start : start + 32]
        lanes[: len(some)] += some
    while len(lanes) > 1:
        lanes = lanes[: len(lanes) // 2] + lanes[len(lanes) // 2 :]
    with np.errstate(over="ignore"):
        return np.float32(lanes[0])


def match(
    queries: NDArray[np.float32],
    papers: NDArray[np.float32],
    impact: NDArray[np.float32],
    candidates: Sequence[Iterable[int]],
    k: int,
    theta: float,
) -> list[tuple[list[int], list[float], int, float, int, float]]:
    """Per idea: rows, similarities, number of matches, score, best row, its similarity."""
    found: list[tuple[list[int], list[float], int, float, int, float]] = []
    for query, rows in zip(queries, candidates, strict=True):
        near: list[tuple[float, int]] = []
        for row in {int(row) for row in rows if row >= 0}:
            with np.errstate(invalid="ignore"):
                s = float(similarity(query, papers[row]))
            if impact[row] >= 0 and math.isfinite(s):
                near.append((-s, row))
        near = sorted(near)[:k]
        matches = [(-float(impact[row]), s, row) for s, row in near if -s >= np.float32(theta)]
        h, s, row = min(matches, default=(0.0, math.inf, -1))
        found.append(([r for _, r in near], [-s for s, _ in near], len(matches), -h, row, -s))
    return found


def grid(
    similarities: NDArray[np.float32],
    c: NDArray[np.float64],
    v: NDArray[np.float64],
    thetas: Sequence[float],
    ks: Sequence[int],
    weights: Sequence[float],
) -> dict[tuple[int, int, int], tuple[float, int, int]]:
    """By places of theta, k and weight: sum of scores, sum of matches, number of ideas matched."""
    sums: dict[tuple[int, int, int], tuple[float, int, int]] = {}
    for a, theta in enumerate(thetas):
        for b, k in enumerate(ks):
            for d, w in enumerate(weights):
                score, matches, matched = 0.0, 0, 0
                for i in range(len(similarities)):
                    near = [j for j in range(k) if similarities[i, j] >= np.float32(theta)]
                    impacts = [np.float32(w * c[i, j] + (1.0 - w) * v[i, j]) for j in near]
                    score += float(max(impacts, default=0.0))
                    matches += len(near)
                    matched += bool(near)
                sums[a, b, d] = score, matches, matched
    return sums


def load_tensors(path: Path) -> dict[str, NDArray[np.float32]]:
    """Tensors of a safetensors file of float32, read by its own library."""
    return load_file(path)


def bert_vector(
    ids: Sequence[int],
    weights: Mapping[str, NDArray[np.float32]],
    *,
    layers: int,
    heads: int,
    pooling: str,
    adapter: Mapping[str, NDArray[np.float32]] | None = None,
) -> NDArray[np.float64]:
    """Unit vector of one text by a BERT encoder, in float64; weights as Hugging Face names them.

    Devlin et al. 2018, arXiv 1810.04805; the adapter as hindsight_models.graph has it.
    """
    w = {key.removeprefix("bert."): value.astype(np.float64) for key, value in weights.items()}
    extra = {key.removeprefix("bert."): v.astype(np.float64) for key, v in (adapter or {}).items()}

    def dense(x: NDArray[np.float64], name: str) -> NDArray[np.float64]:
        y: NDArray[np.float64] = x @ w[f"{name}.weight"].T + w[f"{name}.bias"]
        return y

    def norm(x: NDArray[np.float64], name: str) -> NDArray[np.float64]:
        centred = x - x.mean(1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-12)
        y: NDArray[np.float64] = scaled * w[f"{name}.weight"] + w[f"{name}.bias"]
        return y

    def bottleneck(x: NDArray[np.float64], layer: int) -> NDArray[np.float64]:
        names = [key for key in extra if key.startswith(f"encoder.layer.{layer}.output.adapters.")]
        part = {key.split(".adapter_")[1]: extra[key] for key in names}
        narrow = np.maximum(x @ part["down.0.weight"].T + part["down.0.bias"], 0.0)
        y: NDArray[np.float64] = narrow @ part["up.weight"].T + part["up.bias"]
        return y

    word, position, kind = (
        w[f"embeddings.{name}_embeddings.weight"] for name in ("word", "position", "token_type")
    )
    x = norm(word[list(ids)] + position[: len(ids)] + kind[0], "embeddings.LayerNorm")
    size = x.shape[1] // heads
    for i in range(layers):
        layer = f"encoder.layer.{i}"
        q, k, v = (dense(x, f"{layer}.attention.self.{n}") for n in ("query", "key", "value"))
        context = np.empty_like(x)
        for head in range(heads):
            at = slice(head * size, (head + 1) * size)
            shares = np.exp(q[:, at] @ k[:, at].T / np.sqrt(size))
            context[:, at] = shares / shares.sum(1, keepdims=True) @ v[:, at]
        attended = dense(context, f"{layer}.attention.output.dense")
        a = norm(x + attended, f"{layer}.attention.output.LayerNorm")
        inner = dense(a, f"{layer}.intermediate.dense")
        h = dense(inner * (1.0 + erf(inner / np.sqrt(2.0))) / 2.0, f"{layer}.output.dense")
        last = f"{layer}.output.LayerNorm"
        x = norm(bottleneck(norm(h + a, last), i) + h + a, last) if extra else norm(h + a, last)
    pooled = x[0] if pooling == "cls" else x.mean(0)
    unit: NDArray[np.float64] = pooled / np.linalg.norm(pooled)
    return unit


def score_ideas(
    ideas: NDArray[np.float32],
    papers: NDArray[np.float32],
    impact: NDArray[np.float32],
    k: int,
    theta: float,
) -> list[tuple[np.float32, int | None, int, int]]:
    """(score, best row, matches, nearest row) of each idea, straight from the definition."""
    results = list[tuple[np.float32, int | None, int, int]]()
    for idea in ideas.astype(np.float64):
        similarity = [np.float32(math.fsum(idea * paper)) for paper in papers.astype(np.float64)]
        rows = [row for row in range(len(papers)) if impact[row] >= 0]
        nearest = sorted(rows, key=lambda row: (-similarity[row], row))[:k]
        matches = [row for row in nearest if similarity[row] >= np.float32(theta)]
        best = min(matches, key=lambda row: (-impact[row], -similarity[row], row), default=None)
        score = np.float32(0) if best is None else impact[best]
        results.append((score, best, len(matches), nearest[0]))
    return results
