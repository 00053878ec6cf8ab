"""Completions of one prompt: what a policy learns from them is how they differ."""

from collections.abc import Sequence


def dead_groups(groups: Sequence[str], rewards: Sequence[float | None]) -> float:
    """Share of the groups of two and more rewards in which all are equal: they give no gradient.

    0 where there is no such group.
    """
    by_group: dict[str, list[float]] = {}
    for group, reward in zip(groups, rewards, strict=True):
        if reward is not None:
            by_group.setdefault(group, []).append(reward)
    together = [one for one in by_group.values() if len(one) > 1]
    return sum(min(one) == max(one) for one in together) / len(together) if together else 0.0
