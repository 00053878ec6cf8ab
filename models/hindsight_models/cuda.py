"""The NVIDIA driver and the CUDA libraries, asked directly: what is there and what is missing."""

import ctypes
from pathlib import Path
from typing import Any

from hindsight_models.errors import ModelError

_DRIVER = "libcuda.so.1"
_NO_DEVICE = 100  # CUDA_ERROR_NO_DEVICE


def device_count() -> int:
    """GPUs that this process may use; CUDA_VISIBLE_DEVICES is heeded.

    Raises
    ------
    ModelError
        No driver, no GPU, or a driver that doesn't work; the message says which.
    """
    try:
        driver = ctypes.CDLL(_DRIVER)
    except OSError as error:
        raise ModelError(f"there is no NVIDIA driver here ({error})") from error
    count = ctypes.c_int()
    code = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count))
    if code not in (0, _NO_DEVICE):
        raise ModelError(
            f"the NVIDIA driver does not work: {_error_name(driver, code)}; nvidia-smi shows more"
        )
    if count.value == 0:
        raise ModelError(
            "the NVIDIA driver shows this process no GPU; nvidia-smi lists those of the machine, "
            "CUDA_VISIBLE_DEVICES may hide them"
        )
    return count.value


def free_memory(number: int) -> int:
    """Bytes of a GPU's memory that nothing uses now.

    Raises
    ------
    ModelError
        The driver does not tell.
    """
    driver = ctypes.CDLL(_DRIVER)
    device, context = ctypes.c_int(), ctypes.c_void_p()
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    code = (
        driver.cuInit(0)
        or driver.cuDeviceGet(ctypes.byref(device), number)
        or driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
    )
    if code == 0:
        code = driver.cuCtxPushCurrent_v2(context)
        if code == 0:
            code = driver.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
            driver.cuCtxPopCurrent_v2(ctypes.byref(context))
        driver.cuDevicePrimaryCtxRelease_v2(device)
    if code != 0:
        raise ModelError(
            f"the NVIDIA driver does not tell the memory of GPU {number}: "
            f"{_error_name(driver, code)}"
        )
    return free.value


def why_not_used(runtime: Any) -> str:
    """Why onnxruntime does not use CUDA, as far as can be found out."""
    provider = Path(runtime.__file__).parent / "capi" / "libonnxruntime_providers_cuda.so"
    missing = missing_library(major_of(runtime)) or why_not_loaded(str(provider))
    if missing is None:
        return "the driver may be too old for its CUDA; nvidia-smi shows the driver's"
    return how_to_install(missing)


def how_to_install(missing: str) -> str:
    """What is missing, and how it comes."""
    return f"{missing}; pip install 'hindsight-fast[gpu]' brings the CUDA libraries"


def major_of(runtime: Any) -> str:
    """Of the CUDA that an onnxruntime was built with, like "13"."""
    return str(getattr(runtime, "cuda_version", "") or "13").split(".")[0]


def missing_library(major: str) -> str | None:
    """The first CUDA library that can't be loaded, with the loader's words; None if all can.

    Parameters
    ----------
    major
        Of the CUDA that the engine was built with, like "13".
    """
    for name in (
        f"libcudart.so.{major}",
        f"libcublasLt.so.{major}",
        f"libcublas.so.{major}",
        "libcudnn.so.9",
    ):
        reason = why_not_loaded(name)
        if reason is not None:
            return reason
    return None


def why_not_loaded(library: str) -> str | None:
    """The loader's words where it can't load a library; they name what is missing."""
    try:
        ctypes.CDLL(library)
    except OSError as error:
        return str(error)
    return None


def _error_name(driver: ctypes.CDLL, code: int) -> str:
    name = ctypes.c_char_p()
    driver.cuGetErrorName(code, ctypes.byref(name))
    return (name.value or b"").decode() or f"error {code}"
