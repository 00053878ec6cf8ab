"""TRL and Unsloth: ``GRPOTrainer(reward_funcs=[hindsight_reward])``.

Columns of the data set named prompt_id, topic, cutoff and exclude_ids limit each request. What
earned it goes to the trainer's own logs, as columns and metrics whose names begin with hindsight.
"""

from collections.abc import Callable, Sequence
from typing import cast

from hindsight_fast.rewards._groups import dead_groups
from hindsight_fast.rewards._request import FIELDS, Request
from hindsight_fast.rewards._shared import shared


def hindsight_reward(
    *,
    completions: Sequence[object],
    prompts: Sequence[object] | None = None,
    log_extra: Callable[[str, list[object]], object] | None = None,
    log_metric: Callable[[str, float], object] | None = None,
    **columns: object,
) -> list[float | None]:
    """Rewards of completions, in their order; None where there is none (`RewardConfig.errors`).

    Parameters
    ----------
    completions
        Texts or lists of messages.
    prompts
        Of each. Without a column prompt_id, completions of equal prompts are a group.
    log_extra, log_metric
        TRL's own.
    columns
        The data set's, and whatever else TRL hands on.

    Raises
    ------
    Exception
        As `RewardModel.rewards` does, if `errors` is "raise".
    """
    limits = {
        name: cast(Sequence[object], columns[name])
        for name in FIELDS
        if isinstance(columns.get(name), Sequence)
    }
    asked = [
        Request.of(
            completion,
            None if prompts is None else prompts[i],
            {name: value[i] for name, value in limits.items()},
        )
        for i, completion in enumerate(completions)
    ]
    results = shared().rewards(asked)
    rewards = [one.reward for one in results]
    if log_extra is not None:
        log_extra("hindsight_status", [one.status for one in results])
        log_extra("hindsight_paper", [one.best_paper_id or "" for one in results])
    if log_metric is not None and results:
        parts = [one.components() for one in results]
        for name in parts[0]:
            log_metric(f"hindsight/{name}", sum(part[name] for part in parts) / len(parts))
        groups = [one.prompt_id or repr(one.prompt) for one in asked]
        log_metric("hindsight/dead_groups", dead_groups(groups, rewards))
    return rewards
