"""slime: ``--custom-rm-path hindsight_fast.rewards.slime.reward`` (or group_reward, --group-rm).

A sample's label and metadata, where they are mappings or JSON objects, limit the request by
prompt_id, topic, cutoff and exclude_ids.
"""

from collections.abc import Sequence
from typing import Protocol

from hindsight_fast.errors import ServiceError
from hindsight_fast.rewards._request import Request, RewardResult
from hindsight_fast.rewards._shared import shared
from hindsight_fast.rewards.openrlhf import limits_of


class Sample(Protocol):
    """What is asked of slime's own class."""

    prompt: object
    response: str
    label: object
    metadata: object


async def reward(args: object, sample: Sample, **_: object) -> float:
    """Reward of a sample.

    Raises
    ------
    ServiceError
        It has none.
    """
    return _number(await shared().reward_async(_asked(sample)))


async def group_reward(args: object, samples: Sequence[Sample], **_: object) -> list[float]:
    """Rewards of the samples of a group."""
    return [_number(one) for one in shared().rewards([_asked(sample) for sample in samples])]


def _asked(sample: Sample) -> Request:
    return Request.of(
        sample.response, sample.prompt, limits_of(sample.label), getattr(sample, "metadata", None)
    )


def _number(result: RewardResult) -> float:
    if result.reward is None:
        raise ServiceError(f"no reward: {result.status}: {result.error}")
    return result.reward
