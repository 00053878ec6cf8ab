"""A pool of papers with topics, and texts to be rewarded, for tests of rewards."""

from pathlib import Path

from hindsight_fast.encoding import embed_store
from hindsight_fast.pool import build_pool
from hindsight_fast.store import build_store
from paper_tables import paper, table
from scoring_world import E, T, World, made_up_ideas, make_world


def world_with_topics(folder: Path) -> World:
    """80 papers a day apart, of topics a and b in turn; `folder` of the world has models/tiny."""
    bare = make_world(folder / "bare")
    papers = [paper(i, citations=i * i % 101, topics=["ab"[i % 2]]) for i in range(80)]
    store = build_store(table(papers), folder / "store")
    embed_store(store, bare.encoder)
    pool = build_pool(store, folder / "pool", cutoff=T, until=E, k=5, theta=0.6)
    return World(folder / "bare", bare.encoder, store, pool)


def made_up_texts(n: int) -> list[str]:
    """Made-up ideas as one text each."""
    return [
        f"{one.get('problem') or one.get('title') or one['text']} {one.get('method', '')}".strip()
        for one in made_up_ideas(n)
    ]
