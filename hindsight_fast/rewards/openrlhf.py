"""OpenRLHF: ``--reward.remote_url`` names a .py file that has the line

    from hindsight_fast.rewards.openrlhf import reward_func

A label that is a JSON object limits the request by prompt_id, topic, cutoff and exclude_ids. It
calls from threads with lists of one, which are answered together.
"""

import json
from collections.abc import Sequence
from typing import TypedDict

from hindsight_fast.errors import ServiceError
from hindsight_fast.rewards._request import Request
from hindsight_fast.rewards._shared import shared


class Answer(TypedDict):
    """What OpenRLHF takes, in the order of the queries."""

    rewards: list[float]
    scores: list[float]  # for dynamic filtering
    extra_logs: dict[str, list[float]]


def reward_func(
    queries: Sequence[str],
    prompts: Sequence[str],
    labels: Sequence[object],
    **_: object,
) -> Answer:
    """Rewards of queries, each a prompt with its response and special tokens.

    Raises
    ------
    ServiceError
        A query has no reward: OpenRLHF logs it and leaves the sample without one.
    """
    asked = [
        Request.of(query, prompt, limits_of(label))
        for query, prompt, label in zip(queries, prompts, labels, strict=True)
    ]
    model = shared()
    results = [model.reward(asked[0])] if len(asked) == 1 else model.rewards(asked)
    rewards = list[float]()
    for one in results:
        if one.reward is None:
            raise ServiceError(f"no reward: {one.status}: {one.error}")
        rewards.append(one.reward)
    parts = [one.components() for one in results]
    logs = (
        {f"hindsight_{name}": [part[name] for part in parts] for name in parts[0]} if parts else {}
    )
    return {"rewards": rewards, "scores": rewards, "extra_logs": logs}


def limits_of(label: object) -> object:
    """A label as a mapping, if it is one or a JSON object."""
    if isinstance(label, str) and label.lstrip().startswith("{"):
        try:
            return json.loads(label)
        except (ValueError, RecursionError):
            return None
    return label
