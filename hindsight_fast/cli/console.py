"""What every verb shares: its common options, progress, and how it says what it did.

Results go to standard output, everything else to standard error; with ``--json`` standard output
holds one JSON object and nothing else.
"""

import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, NoReturn, Protocol

import typer


class Advance(Protocol):
    """Called with what is done and the total (0 where it is not known), again and again.

    Where tokens are given, their rate is shown too; a label replaces the one before; `more` is
    shown after all else.
    """

    def __call__(
        self, done: int, total: int, *, tokens: int = 0, label: str = "", more: str = ""
    ) -> None: ...


Threads = Annotated[
    int | None,
    typer.Option("--threads", help="At most as many as this process may use; default: all.", min=1),
]
Json = Annotated[
    bool, typer.Option("--json", help="One JSON object on standard output in place of text.")
]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace what is there under another fingerprint.")
]
Device = Annotated[
    str, typer.Option("--device", help="cpu, cuda, cuda:1, or auto: a GPU where one answers.")
]
Precision = Annotated[
    str,
    typer.Option(
        "--precision",
        help="auto (float32 on the CPU, float16 on CUDA), float32, float16, bfloat16, or int8.",
    ),
]
GpuMem = Annotated[
    float | None, typer.Option("--gpu-mem", help="GB of each GPU's memory to use.", min=0.1)
]
Conditions = Annotated[
    list[str] | None,
    typer.Option(
        "--where",
        help="SQL condition on a paper's columns, such as \"kind <> 'survey'\" or \"date >= date "
        "'2023-06-01'\"; several must all hold.",
    ),
]
Topics = Annotated[
    list[str] | None,
    typer.Option(
        "--topic", help="Only papers of this topic (or another named) of build's --topics."
    ),
]

_PLAIN_EVERY_S = (10.0, 300.0)  # at first, and in the end

_NOTHING_LEFT = "nothing half-done is left, run the same command again"
_stopped_by: int | None = None
_when_stopped = _NOTHING_LEFT


def stop(number: int, _frame: FrameType | None = None) -> NoReturn:
    """Handle a signal: an exit and no traceback; what is unfinished cleans up on the way out."""
    global _stopped_by
    if _stopped_by is None:
        note(f"hindsight-fast: interrupted; {_when_stopped}")
    _stopped_by = number
    raise SystemExit(128 + number)


def go_on() -> None:
    """Leave if a signal's exit was lost.

    Raised in a finaliser, it's printed and forgotten; a library may put its own error in its place.
    """
    if _stopped_by is not None:
        raise SystemExit(128 + _stopped_by)


@contextmanager
def kept_when_stopped(lost: str = "the last few hundred papers") -> Generator[None]:
    """Say so at a signal: what is done meanwhile is kept, but for what is `lost`."""
    global _when_stopped
    _when_stopped = f"what is done is kept, but for {lost}; run the same command again to go on"
    try:
        yield
    finally:
        _when_stopped = _NOTHING_LEFT


def check_names(arguments: list[str]) -> None:
    """Refuse names that are not UTF-8 once, and in words: polars and usearch take none."""
    from hindsight_fast.errors import UsageError

    for argument in arguments:
        if any("\udc80" <= character <= "\udcff" for character in argument):
            shown = argument.encode("utf-8", "surrogateescape")
            raise UsageError(f"{shown!r} is not UTF-8, and no name of a file can be; rename it")


def printable(text: str) -> str:
    """Text in which nothing moves the cursor or commands the terminal, whatever a file holds."""
    return "".join(c if c.isprintable() or c == "\n" else " " for c in text)


def note(text: str) -> None:
    """A line for the person who watches."""
    sys.stderr.write(f"{printable(text)}\n")
    sys.stderr.flush()


def warn(message: Warning | str, *_: object, **__: object) -> None:
    """Show a warning as one line, without the place in the code that it comes from."""
    note(f"hindsight-fast: {message}")


def finish(as_json: bool, summary: dict[str, Any], text: str) -> None:
    """The last line: what was done."""
    if as_json:
        typer.echo(json.dumps(summary, indent=2, default=str, ensure_ascii=False, allow_nan=False))
    else:
        typer.echo(text)


def threads_to_use(asked: int | None) -> int:
    """Threads that this process may use, at most those asked for; says so where they are fewer."""
    from hindsight_fast.config import usable_threads

    usable = usable_threads(asked)
    if asked is not None and usable < asked:
        note(f"--threads {asked}: this process may use {usable}")
    return usable


@contextmanager
def files_of(sources: list[Path]) -> Generator[dict[Path, str]]:
    """The sources by their names as given, with standard input (`-`) as a file."""
    if Path("-") not in sources:
        yield {source: str(source) for source in sources}
        return
    from hindsight_fast.errors import HindsightError
    from hindsight_fast.storage import storage_errors

    with tempfile.TemporaryDirectory(prefix="hindsight-") as folder:
        spool = Path(folder) / "stdin"
        with storage_errors(f"write {spool}"), spool.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        try:
            yield {spool if source == Path("-") else source: str(source) for source in sources}
        except HindsightError as error:
            raise type(error)(str(error).replace(str(spool), "standard input")) from error


@contextmanager
def progress(label: str, unit: str) -> Generator[Advance]:
    """A bar on a terminal, a plain line from time to time elsewhere."""
    if not sys.stderr.isatty():
        yield _checked(_plain_progress(label, unit))
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(min(max(shutil.get_terminal_size().columns - 70, 10), 40)),
        MofNCompleteColumn(),
        TextColumn(f"{unit}{{task.fields[rates]}}, left"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[more]}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=None, rates="", more="")
        rates = _Rates()

        def advance(
            done: int, total: int, *, tokens: int = 0, label: str = label, more: str = ""
        ) -> None:
            told = rates.told(label, done, tokens)
            shown = f" ({told})" if told else ""
            bar.update(
                task,
                completed=done,
                total=total or None,
                description=label,
                rates=shown,
                more=more,
            )

        yield _checked(advance)


class _Rates:
    """What is done a second, since the first that was told under the same label."""

    def __init__(self) -> None:
        self._label: str | None = None
        self._began, self._done, self._tokens = 0.0, 0, 0
        self.per_second = 0.0

    def told(self, label: str, done: int, tokens: int) -> str:
        if label != self._label:
            self._label, self._began = label, time.monotonic()
            self._done, self._tokens, self.per_second = done, tokens, 0.0
        seconds = time.monotonic() - self._began
        if seconds < 1:
            return ""
        self.per_second = (done - self._done) / seconds
        shown = f"{self.per_second:,.{0 if self.per_second >= 10 else 1}f}/s"
        if tokens > self._tokens:
            shown += f", {(tokens - self._tokens) / seconds:,.0f} tokens/s"
        return shown


def _checked(advance: Advance) -> Advance:
    def advance_or_leave(
        done: int, total: int, *, tokens: int = 0, label: str = "", more: str = ""
    ) -> None:
        go_on()
        if label:
            advance(done, total, tokens=tokens, label=label, more=more)
        else:
            advance(done, total, tokens=tokens, more=more)

    return advance_or_leave


def _plain_progress(label: str, unit: str) -> Advance:
    first, last = _PLAIN_EVERY_S
    began = told = time.monotonic()
    rates = _Rates()

    def advance(
        done: int, total: int, *, tokens: int = 0, label: str = label, more: str = ""
    ) -> None:
        nonlocal told
        rate, now = rates.told(label, done, tokens), time.monotonic()
        if now - told < min(max(first, (now - began) / 20), last):
            return
        told = now
        rest = ""
        if total and rates.per_second:
            rest = f" of {total:,}, {duration((total - done) / rates.per_second)} left"
        shown = f" ({rate})" if rate else ""
        note(f"{label}: {done:,} {unit}{rest}{shown}" + (f", {more}" if more else ""))

    return advance


def duration(seconds: float) -> str:
    """A time as a person says it: "40 s", "12 minutes", "3.2 hours", "2.1 days"."""
    for unit, size in (("days", 86_400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 1.5 * size:
            value = seconds / size
            return f"{value:.{1 if value < 10 else 0}f} {unit}"
    return f"{seconds:.0f} s"


def table(
    title: str,
    columns: list[str],
    rows: list[list[str]],
    *,
    right: tuple[int, ...] = (),
    long: tuple[int, ...] = (),
) -> None:
    """A table on standard output, a line a row; `long` columns share what room there is."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    if title:
        typer.echo(f"\n{title}")
    shown = Table(header_style="bold", box=box.SIMPLE_HEAD, pad_edge=False, expand=bool(long))
    for number, name in enumerate(columns):
        shown.add_column(
            name,
            justify="right" if number in right else "left",
            no_wrap=True,
            overflow="ellipsis",
            ratio=1 if number in long else None,
            # Else a long column would take the room of the short ones.
            min_width=None if number in long else max(map(len, [name, *(r[number] for r in rows)])),
        )
    for row in rows:
        # Text: what looks like markup stays as it is.
        shown.add_row(*(Text(printable(x).replace("\n", " ")) for x in row))
    # Piped output must not be cut to 80 columns, unless somebody asked for that.
    fixed = None if sys.stdout.isatty() or "COLUMNS" in os.environ else 160
    Console(width=fixed).print(shown)


def share(part: int | float, whole: int | float) -> str:
    """`part` of `whole` as a percentage."""
    return f"{100 * part / whole:.1f}%" if whole else "-"
