"""Published files on this machine to a model folder."""

from dataclasses import replace
from pathlib import Path
from typing import Literal, NamedTuple

import hindsight_models as models
from hindsight_fast.errors import UsageError
from hindsight_fast.model_folders import models_home, translated
from hindsight_fast.storage import storage_errors
from hindsight_fast.store import is_encoder_name


class TextRule(NamedTuple):
    """What is said of a model by hand, where neither a recipe nor its folder says it.

    Attributes
    ----------
    theta
        Similarity of a match.
    pooling
        ``cls`` or ``mean``.
    separator
        Stands between title and abstract; a space by default.
    max_tokens
        Longest input.
    """

    theta: float | None = None
    pooling: Literal["cls", "mean"] | None = None
    separator: str | None = None
    max_tokens: int | None = None


def export_model(
    name: str,
    base: Path,
    out: Path | None = None,
    *,
    adapter: Path | None = None,
    rule: TextRule = TextRule(),  # noqa: B008
    overwrite: bool = False,
) -> models.Placed:
    """Make a model folder from a published checkpoint and adapter; proven, or not there.

    Parameters
    ----------
    name
        A known model of the hub, whose facts are known, or any other name for a BERT encoder.
    base
        Folder of the checkpoint: config.json, weights, tokenizer.
    out
        Where to put it; by default under `models_home()`.
    adapter
        Folder of the adapter.

    Raises
    ------
    UsageError
        A fact is missing or contradicts what is known; or something else is at `out`.
    EncoderError
        The files are not as they must be.
    StorageError
        No space or no rights.
    """
    if not is_encoder_name(name):
        raise UsageError(f"{name!r} is no name for a model: lower-case letters, digits, . _ -")
    for folder in (base, adapter):
        if folder is not None and not folder.is_dir():
            raise UsageError(f"{folder} is no folder of published files")
    with translated():
        facts = _facts(name, base, adapter, rule)
    target = (models_home() / name if out is None else out).absolute()
    with storage_errors(f"write {target}"), translated():
        return models.export_to(target, base, facts, adapter, overwrite=overwrite)


def _facts(name: str, base: Path, adapter: Path | None, rule: TextRule) -> models.Facts:
    recipe = models.KNOWN.get(name)
    if recipe is None:
        return _said(name, base, rule)
    if not isinstance(recipe.source, models.Hub):
        raise UsageError(f"`hindsight-fast models get {name}` makes {name}; export takes others")
    wanted = recipe.source.adapter
    if (wanted is None) != (adapter is None):
        expected = f"--adapter with the files of {wanted.repo}" if wanted else "no --adapter"
        raise UsageError(f"{name} takes {expected}")
    given = [
        f"--{key.replace('_', '-')}" for key, value in rule._asdict().items() if value is not None
    ]
    if given:
        raise UsageError(
            f"{', '.join(given)}: known of {name}; for another rule, take another name"
        )
    # Files from elsewhere are what they are: their hashes are recorded, not the pinned revision.
    sources = {"weights": recipe.facts.sources["weights"]}
    return replace(recipe.facts, sources=sources)


def _said(name: str, base: Path, rule: TextRule) -> models.Facts:
    """Facts of a model that is not known: from its folder, and what is said of it."""
    told = models.read_told(base)
    if rule.theta is None:
        raise UsageError(f"--theta is needed: no similarity of a match is known for {name!r}")
    if not -1 <= rule.theta <= 1:
        raise UsageError(f"--theta {rule.theta}: a number from -1 to 1 is expected")
    if rule.pooling is not None and told.pooling not in (None, rule.pooling):
        raise UsageError(f"--pooling {rule.pooling}: {base} says {told.pooling}")
    pooling = rule.pooling or told.pooling
    if pooling is None:
        raise UsageError(f"--pooling cls or mean is needed: {base} doesn't say which")
    return models.Facts(
        name=name,
        pooling=pooling,
        separator=" " if rule.separator is None else rule.separator,
        max_tokens=rule.max_tokens or told.max_tokens,
        theta=rule.theta,
        theta_note="Given at export.",
        sources={"weights": base.resolve().name},
    )
