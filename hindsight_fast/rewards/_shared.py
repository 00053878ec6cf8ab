"""The reward model that a process shares among all functions that a training library calls by name.

Libraries import such functions in worker processes, where nobody can hand them a model. So it is
what `use` was given, or else is opened at the first call, as the environment says:

    HINDSIGHT_POOL     the pool's folder
    HINDSIGHT_REWARD   settings: a JSON object with fields of `RewardConfig`, and with store,
                       encoder, device, threads and cache as in `RewardModel.open`
"""

import json
import os
import threading
from dataclasses import fields
from typing import Any, Final, cast

from hindsight_fast.errors import UsageError
from hindsight_fast.rewards._config import RewardConfig
from hindsight_fast.rewards._model import RewardModel

_OPENING: Final = ("store", "encoder", "device", "threads", "cache")

_lock = threading.Lock()
_model: RewardModel | None = None


def use(model: RewardModel | None) -> None:
    """Take this model for all calls of this process from now on; None: as the environment says."""
    global _model
    with _lock:
        _model = model


def shared() -> RewardModel:
    """The model of this process.

    Raises
    ------
    UsageError
        The environment names no pool, or its settings make no sense.
    HindsightError
        The pool or its encoder can't be opened.
    """
    global _model
    with _lock:
        if _model is None:
            _model = _opened()
        return _model


def _opened() -> RewardModel:
    pool, written = os.environ.get("HINDSIGHT_POOL"), os.environ.get("HINDSIGHT_REWARD", "{}")
    if not pool:
        raise UsageError(
            "no reward model: call hindsight_fast.rewards.use, or set HINDSIGHT_POOL to the folder "
            "of a pool before workers start"
        )
    try:
        given: object = json.loads(written)
    except ValueError as error:
        raise UsageError(f"HINDSIGHT_REWARD = {written!r} is no JSON: {error}") from error
    known = {one.name for one in fields(RewardConfig)}
    settings: dict[str, Any] = {written: None}
    if isinstance(given, dict):
        settings = cast(dict[str, Any], given)
    if unknown := settings.keys() - known - set(_OPENING):
        raise UsageError(
            f"HINDSIGHT_REWARD has {', '.join(sorted(unknown))}: expected a JSON object with some "
            f"of {', '.join(sorted(known))}, {', '.join(_OPENING)}"
        )
    try:
        config = RewardConfig(**{name: settings[name] for name in settings if name in known})
        opening = {name: settings[name] for name in settings if name in _OPENING}
        return RewardModel.open(pool, config, **opening)
    except (TypeError, ValueError) as error:
        raise UsageError(f"HINDSIGHT_REWARD = {written!r}: {error}") from error
