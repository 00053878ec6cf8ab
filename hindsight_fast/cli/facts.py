"""What a folder or a table is, for `info`: a few rows of words for each kind of thing."""

from collections.abc import Callable, Iterator
from typing import Any

from hindsight_fast.cli import console

Facts = dict[str, Any]
Rows = Iterator[tuple[str, str]]


def rows(facts: Facts) -> list[tuple[str, str]]:
    """What there is to say of the thing, most wanted first; the ids, for a paper, last."""
    return list(_OF_KIND[facts["kind"]](facts))


def _store(facts: Facts) -> Rows:
    yield "papers", f"{facts['n']:,}"
    for name, vectors in facts["vectors"].items():
        theta = vectors.get("theta")
        yield (
            f"vectors of {name}",
            f"{_papers(vectors)}, {_kind_of_vectors(vectors)}"
            + ("" if theta is None else f", theta {theta:g}")
            + f"; {_size(vectors['bytes'])}",
        )
    for name in facts["unfinished_vectors"]:
        yield f"vectors of {name}", "unfinished: the same `embed` goes on with them"
    for name, n in facts["carried_vectors"].items():
        yield (
            f"vectors of {name}",
            f"{n:,} papers' taken over by --reuse wait for `embed`, which makes the others",
        )
    if not facts["vectors"] and not facts["carried_vectors"]:
        yield "vectors", "none yet: see `embed`"
    yield "size", _size(facts["bytes"])
    yield "content id", facts["content_id"]
    yield "facts id", facts["facts_id"]


def _vectors(facts: Facts) -> Rows:
    yield "encoder", f"{facts['encoder']}, {_kind_of_vectors(facts)}"
    yield "papers", _papers(facts)
    for name, what in (
        ("n_encoded", "encoded here"),
        ("n_taken", "taken over from elsewhere"),
        ("n_truncated", "with a text too long for the encoder"),
    ):
        if facts.get(name):
            yield what, f"{facts[name]:,}"
    if facts.get("device"):
        yield "device", facts["device"]
    if facts.get("theta") is not None:
        yield "theta", f"{facts['theta']:g}  {facts.get('theta_note', '')}".rstrip()
    yield "size", _size(facts["bytes"])
    yield "fingerprint", facts["encoder_fingerprint"]
    yield "content id", facts["content_id"]


def _pool(facts: Facts) -> Rows:
    yield "window", f"{facts['start']} to {facts['until']}, ideas from before {facts['cutoff']}"
    yield "papers", f"{facts['n_papers']:,}"
    yield "encoder", _joined(facts["encoder"], facts.get("precision"))
    yield "impact", facts["recipe"]
    yield "neighbours", f"{facts['k']}, theta {facts['theta']:g}"
    if facts.get("citations_as_of"):
        yield "counts as of", facts["citations_as_of"]
    for name in ("where", "topics"):
        if facts.get(name):
            yield "only", " and ".join(facts[name])
    if facts.get("require_first_public"):
        yield "only", "papers dated by a first version"
    of_others = "" if facts["trusted"] else "; not used, since somebody else made it (see --trust)"
    if facts.get("scan"):
        yield "exact scan", f"along {facts['scan']['n_axes']} axes first{of_others}"
    index = facts.get("index")
    if index is None:
        yield "index", "none: every paper is looked at"
    else:
        yield "index", _index(index["facts"]) + of_others
    yield "store", facts["store"]
    yield "size", _size(facts["bytes"])
    yield "signature", facts["signature"]


def _index(facts: Facts) -> str:
    return f"HNSW, {facts['dtype']}, {_size(facts['n_bytes'])}"


def _scores(facts: Facts) -> Rows:
    counts, of = facts["counts"], facts["precision"]
    yield "ideas", f"{counts['ideas']:,}, {counts['scored']:,} of them scored"
    yield "encoded", f"on {facts['device']} in {of['ideas']}, the papers in {of['papers']}"
    yield "search", facts["search"]
    seconds = facts["seconds"]["total"]
    yield "written", f"{facts['written']}, in {console.duration(seconds)}"
    for what, file in facts["files"].items():
        yield what, f"{file['name']}, {_size(file['size'])}"


def _collection(facts: Facts) -> Rows:
    yield "service", facts["service"]
    yield "window", f"{facts['from']} to {facts['until']}"
    yield "records", f"{facts['n_records']:,} of {facts['n_ids']:,} papers"
    if facts.get("n_rejects"):
        yield "rejects", f"{facts['n_rejects']:,}"
    yield "queries", f"{len(facts['queries']):,}, answered on {facts['n_pages']:,} pages"
    yield "collected", f"{facts['collected_from']} to {facts['collected_until']}"
    if facts.get("spent_usd") is not None:
        yield "spent", f"{facts['spent_usd']:.3f} USD"
    yield "size", _size(facts["bytes"])


def _model(facts: Facts) -> Rows:
    yield "dimensions", str(facts["dim"])
    yield "theta", f"{facts['theta']:g}"
    if facts["adapter"]:
        yield "adapter", facts["adapter"]
    yield from facts["sources"].items()
    yield "fingerprint", facts["fingerprint"]


_OF_KIND: dict[str, Callable[[Facts], Rows]] = {
    "store": _store,
    "vectors": _vectors,
    "pool": _pool,
    "score table": _scores,
    "collection": _collection,
    "model": _model,
}


def _papers(vectors: Facts) -> str:
    since, n = vectors.get("since"), vectors["n"]
    if not since:
        return f"{n:,} papers"
    made = vectors.get("n_encoded", 0) + vectors.get("n_taken", 0)
    return f"{made:,} of {n:,} papers, those since {since}"


def _kind_of_vectors(facts: Facts) -> str:
    return _joined(f"{facts['dim']} dimensions", facts.get("precision"))


def _joined(*words: str | None) -> str:
    return ", ".join(word for word in words if word)


def _size(n_bytes: int) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if n_bytes >= size:
            return f"{n_bytes / size:.1f} {unit}"
    return f"{n_bytes} bytes"
