"""A pool in the making: steps that are noted, so that a kill costs one of them at most."""

from collections.abc import Callable
from typing import Any

from hindsight_fast.storage import Steps, flushed_facts, is_whole, storage_errors


def drop_unnoted(work: Steps) -> None:
    """Remove the files that no step notes; what is written next may bear their names."""
    noted = {name for record in work.noted for name in record["files"]}
    with storage_errors(f"look at {work.folder}"):
        for path in work.folder.iterdir():
            if path.name not in noted and not path.name.startswith("."):
                path.unlink()


def noted(work: Steps, name: str) -> dict[str, Any] | None:
    """Return the facts of a step that was done earlier, if its files are there, whole."""
    for record in reversed(work.noted):
        if record.get("step") == name:
            whole = all(is_whole(work.folder / n, f) for n, f in record["files"].items())
            return dict(record["facts"]) if whole else None
    return None


def step(
    work: Steps, name: str, files: tuple[str, ...], make: Callable[[], dict[str, Any]]
) -> dict[str, Any]:
    """Do a step, unless it was done earlier; returns its facts, of JSON values.

    Parameters
    ----------
    files
        Names of those that it may write.
    """
    if (facts := noted(work, name)) is not None:
        return facts
    paths = [work.folder / file for file in files]
    with storage_errors(f"write {work.folder}"):
        for path in paths:  # never written to: it may be a file of another pool too
            path.unlink(missing_ok=True)
    facts = make()
    made = {path.name: flushed_facts(path) for path in paths if path.exists()}
    work.note({"step": name, "files": made, "facts": facts})
    return facts
