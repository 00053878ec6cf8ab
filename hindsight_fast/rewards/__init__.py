"""HindSight as a reward: completions in, finite numbers out, whatever a policy writes.

`RewardModel` answers `Request`s; the modules named after training libraries (`trl`, `verl`,
`openrlhf`, `slime`, `verifiers`) turn their calls into requests, and import nothing of
them.
"""

from hindsight_fast.rewards._config import RewardConfig
from hindsight_fast.rewards._model import RewardModel
from hindsight_fast.rewards._request import Request, RewardResult
from hindsight_fast.rewards._shared import shared, use

__all__ = ["Request", "RewardConfig", "RewardModel", "RewardResult", "shared", "use"]
