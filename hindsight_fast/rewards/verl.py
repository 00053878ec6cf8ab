"""verl: reward.custom_reward_function.path = this file, name = compute_score.

The default loop calls for one sample at a time, many at once, in several processes: single calls
are answered together (`RewardModel.reward`). ``compute_score_async`` is the same for its event
loop, ``compute_score_batch`` for the older manager that asks for a batch.

ground_truth and extra_info, where they are mappings, limit the request by prompt_id, topic, cutoff
and exclude_ids; extra_info["prompt"] may say what a solution begins with. verl knows no sample
without a reward, so what `RewardConfig.errors` = "none" leaves out gets `error_value`.
"""

from collections.abc import Mapping, Sequence
from typing import cast

from hindsight_fast.rewards._request import Request, RewardResult
from hindsight_fast.rewards._shared import shared


def compute_score(
    data_source: object = None,
    solution_str: object = None,
    ground_truth: object = None,
    extra_info: object = None,
    **_: object,
) -> dict[str, float]:
    """Reward of one solution: "score", and what it comes from, always with the same keys.

    Raises
    ------
    Exception
        As `RewardModel.reward` does, if `errors` is "raise".
    """
    return _answer(shared().reward(_asked(solution_str, ground_truth, extra_info)))


async def compute_score_async(
    data_source: object = None,
    solution_str: object = None,
    ground_truth: object = None,
    extra_info: object = None,
    **_: object,
) -> dict[str, float]:
    """`compute_score` for an event loop."""
    return _answer(await shared().reward_async(_asked(solution_str, ground_truth, extra_info)))


def compute_score_batch(
    data_sources: Sequence[object] | None = None,
    solution_strs: Sequence[object] = (),
    ground_truths: Sequence[object] | None = None,
    extra_infos: Sequence[object] | None = None,
    **_: object,
) -> list[dict[str, float]]:
    """`compute_score` of a batch."""
    n = len(solution_strs)
    truths, infos = ground_truths or [None] * n, extra_infos or [None] * n
    asked = [_asked(*one) for one in zip(solution_strs, truths, infos, strict=True)]
    return [_answer(one) for one in shared().rewards(asked)]


def _asked(solution: object, truth: object, info: object) -> Request:
    known: Mapping[str, object] = {}
    if isinstance(info, Mapping):
        known = cast(Mapping[str, object], info)
    return Request.of(solution, known.get("prompt"), truth, known)


def _answer(result: RewardResult) -> dict[str, float]:
    reward = shared().config.error_value if result.reward is None else result.reward
    # "score" is what verl trains on; the published one keeps another name.
    parts = {f"hindsight_{name}": value for name, value in result.components().items()}
    return {"score": reward, **parts}
