"""Which engine computes, on which device, with which precision."""

import re
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from hindsight_models import cuda
from hindsight_models.card import FUSED_FILE, GRAPH_FILE, HALF_FILE, Card
from hindsight_models.errors import ModelError, RequestError
from hindsight_models.session import CpuSession, CudaSession, check_cuda

PRECISIONS = ("float32", "float16", "bfloat16", "int8")
"""What can be computed with: float16 on CUDA, bfloat16 and int8 on the CPU, float32 on both."""

_DEVICE = re.compile(r"auto|cpu|cuda(?::(\d{1,3}))?")


class Session(Protocol):
    """A model's graph on one device; `run` may be called from several threads at once."""

    @property
    def device(self) -> str:
        """What is really used: "cpu" or "cuda:N"."""
        ...

    @property
    def precision(self) -> str:
        """One of `PRECISIONS`."""
        ...

    def run(self, ids: NDArray[np.int32], mask: NDArray[np.int32]) -> NDArray[np.float32]:
        """Vectors of a batch, float32 of shape (n, dim); unit rows, unless numbers overflowed."""
        ...


class Opened(NamedTuple):
    """Sessions of one precision, one for each device, and what there is to say about the choice."""

    sessions: list[Session]
    note: str


def open_sessions(
    folder: Path,
    card: Card,
    device: str = "auto",
    precision: str = "auto",
    threads: int = 1,
    gpu_mem: int | None = None,
) -> Opened:
    """Open a model on the devices asked for.

    Parameters
    ----------
    device
        "cpu"; "cuda" (every GPU) or "cuda:N"; "auto": CUDA where it works and can have the
        precision, else the CPU, and the note says why.
    precision
        One of `PRECISIONS`, or "auto": float16 on CUDA, float32 on the CPU.
    threads
        Batches that will be computed at once on the CPU.
    gpu_mem
        Bytes that may be taken of each GPU; None: all.

    Raises
    ------
    ModelError
        The device or the precision can't be had, with the reason.
    """
    _check(device, precision, gpu_mem)
    if device == "cpu" or (device == "auto" and precision in ("bfloat16", "int8")):
        return Opened([open_on_cpu(folder, card, precision, threads)], "")
    try:
        return _open_on_cuda(folder, card, device, precision, gpu_mem)
    except ModelError as error:
        if device != "auto":
            raise ModelError(f"CUDA was asked for, but {error}") from error
        if precision == "float16":
            raise ModelError(f"float16 needs CUDA, but {error}") from error
        return Opened([open_on_cpu(folder, card, precision, threads)], f"not on CUDA: {error}")


def open_on_cpu(folder: Path, card: Card, precision: str, threads: int) -> Session:
    """Open a model on the CPU; see `open_sessions`."""
    if precision == "float16":
        raise ModelError(
            "float16 is for CUDA: the CPU would compute in float32 and round in between; "
            "take float32, or bfloat16 where the processor has it"
        )
    if precision == "bfloat16":
        from hindsight_models.openvino import OpenvinoSession

        return OpenvinoSession(folder, card, threads)
    if precision == "int8":
        from hindsight_models.int8 import quantised_graph

        return CpuSession(quantised_graph(folder), folder, card, "int8")
    return CpuSession(folder / GRAPH_FILE, folder, card, "float32")


def open_float32(folder: Path, card: Card, device: str, gpu_mem: int | None) -> Session:
    """A float32 session beside another one, for single texts.

    On the same device; on the CPU where `gpu_mem` is given, since the other may take all of that.
    """
    if device == "cpu" or gpu_mem is not None:
        return open_on_cpu(folder, card, "float32", 1)
    return CudaSession(folder, card, int(device.removeprefix("cuda:")), "float32", gpu_mem)


def open_fused(folder: Path, card: Card) -> Session:
    """The graph made for CUDA, on the CPU: to prove it."""
    return CpuSession(folder / FUSED_FILE, folder, card, "float32")


def gpus() -> str:
    """How many GPUs can be computed with, or what is missing for it."""
    try:
        count = check_cuda()
    except ModelError as error:
        return f"none that can be used: {error}"
    return f"{count}, as cuda:0" + (f" to cuda:{count - 1}" if count > 1 else "")


def precisions() -> dict[str, str | None]:
    """Each of `PRECISIONS`, and why it can't be had on this machine (None: it can)."""
    from hindsight_models.openvino import openvino_facts

    reasons: dict[str, str | None] = dict.fromkeys(PRECISIONS)
    for precision, check in (("float16", check_cuda), ("bfloat16", openvino_facts)):
        try:
            check()
        except ModelError as error:
            reasons[precision] = str(error)
    return reasons


def _check(device: str, precision: str, gpu_mem: int | None) -> None:
    if _DEVICE.fullmatch(device) is None:
        raise RequestError(f"device is {device!r}; expected auto, cpu, cuda or cuda:N")
    if precision not in ("auto", *PRECISIONS):
        raise RequestError(f"precision is {precision!r}; expected auto, {', '.join(PRECISIONS)}")
    if gpu_mem is not None and gpu_mem < 1:
        raise RequestError(f"gpu_mem is {gpu_mem} bytes; expected at least 1")


def _open_on_cuda(
    folder: Path, card: Card, device: str, precision: str, gpu_mem: int | None
) -> Opened:
    note = ""
    if precision in ("bfloat16", "int8"):
        raise ModelError(f"{precision} is for the CPU; on CUDA take float16 or float32")
    if precision in ("auto", "float16") and HALF_FILE not in card.files:
        lack = f"{folder} was made without {HALF_FILE}; fetch or export it again for float16"
        if precision == "float16":
            raise ModelError(lack)
        precision, note = "float32", lack
    if precision == "auto":
        precision = "float16"
    count = cuda.device_count()
    numbers = list(range(count)) if device in ("auto", "cuda") else [int(device[5:])]
    if numbers[-1] >= count:
        raise ModelError(f"there is no {device}: GPUs are counted from 0, and here are {count}")
    sessions = [CudaSession(folder, card, each, precision, gpu_mem) for each in numbers]
    return Opened([*sessions], note)
