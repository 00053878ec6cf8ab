"""The command line: in this process, which costs no start, or as a program of its own."""

import io
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hindsight_fast.cli import main

Run = subprocess.CompletedProcess[str]


def environment(home: Path) -> dict[str, str]:
    return {**os.environ, "HINDSIGHT_HOME": str(home), "NO_COLOR": "1", "COLUMNS": "200"}


def run(home: Path, folder: Path, command: str, *, input: str | None = None) -> Run:
    """What a program of its own does from its arguments to its exit code, in this process."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name, value in environment(home).items():
            patch.setenv(name, value)
        patch.setenv("_RJEM_MALLOC_CONF", "")  # taken back in the end, whatever a verb sets
        patch.setattr(signal, "signal", _leave_signals)
        patch.setattr(sys, "argv", ["hindsight-fast", *command.split()])
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO((input or "").encode()), "utf-8"))
        patch.setattr(sys, "stdout", out)
        patch.setattr(sys, "stderr", err)
        with pytest.raises(SystemExit) as left:
            main()
    said, told = (stream.buffer.getvalue().decode() for stream in (out, err))
    return Run(command, int(left.value.code or 0), said, told)


def _leave_signals(_number: int, _handler: object) -> None:
    """They are pytest's here."""


def start(
    home: Path,
    folder: Path,
    command: str,
    *,
    input: str | None = None,
    stdout: Any = subprocess.PIPE,
) -> Run:
    """A program of its own, until its end."""
    return subprocess.run(
        [sys.executable, "-m", "hindsight_fast", *command.split()],
        cwd=folder,
        env=environment(home),
        text=True,
        timeout=120,
        check=False,
        input=input,
        stdout=stdout,
        stderr=subprocess.PIPE,
    )
