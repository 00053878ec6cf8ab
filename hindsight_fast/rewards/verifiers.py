"""verifiers and prime-rl: a reward by import path, ``hindsight_fast.rewards.verifiers:hindsight``.

Parameters are chosen by name: of v1 the trace, whose last reply is the answer, and the task; of the
older rubrics completion, prompt, answer and info. Mappings among them limit the request by
prompt_id, topic, cutoff and exclude_ids.
"""

from hindsight_fast.errors import ServiceError
from hindsight_fast.rewards._request import Request
from hindsight_fast.rewards._shared import shared


async def hindsight(task: object, trace: object) -> float:
    """Reward of the last reply of a trace.

    Raises
    ------
    ServiceError
        It has none.
    """
    limits = [task, getattr(task, "info", None), getattr(task, "answer", None)]
    return await _reward(getattr(trace, "last_reply", None), None, *limits)


async def hindsight_rubric(
    completion: object, prompt: object, answer: object, info: object
) -> float:
    """The same for a rubric of verifiers before v1."""
    return await _reward(completion, prompt, answer, info)


async def _reward(completion: object, prompt: object, *limits: object) -> float:
    result = await shared().reward_async(Request.of(completion, prompt, *limits))
    if result.reward is None:
        raise ServiceError(f"no reward: {result.status}: {result.error}")
    return result.reward
