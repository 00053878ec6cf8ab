"""The one place for the options of numba's njit.

No fastmath where a result must be the same to the bit on every machine (a similarity);
additions may be reordered only in a bound, which holds in any order. NaN and inf are always seen.
No parallel=True: a kernel is serial, releases the GIL and works on a range of rows; threads are
ours (`_threads`), so that no threading layer can abort the process, and a forked child works.
"""

import warnings
from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit, types

F = TypeVar("F", bound=Callable[..., Any])


def _rows(scalar: Any, ndim: int, *, readonly: bool) -> Any:
    return types.Array(scalar, ndim, "C", readonly=readonly)


# Inputs are read-only types, which take memory-mapped and ordinary arrays alike.
U8_IN = _rows(types.uint8, 1, readonly=True)
I8_2D_IN = _rows(types.int8, 2, readonly=True)
F32_IN = _rows(types.float32, 1, readonly=True)
F32_2D_IN = _rows(types.float32, 2, readonly=True)
I32_2D_IN = _rows(types.int32, 2, readonly=True)
I32_IN = _rows(types.int32, 1, readonly=True)
I64_IN = _rows(types.int64, 1, readonly=True)
F64_IN = _rows(types.float64, 1, readonly=True)
F64_2D_IN = _rows(types.float64, 2, readonly=True)
F32 = _rows(types.float32, 1, readonly=False)
F32_2D = _rows(types.float32, 2, readonly=False)
F64 = _rows(types.float64, 1, readonly=False)
F64_2D = _rows(types.float64, 2, readonly=False)
I32 = _rows(types.int32, 1, readonly=False)
I32_2D = _rows(types.int32, 2, readonly=False)
I64 = types.int64
I64_4: Any = cast(Any, types).UniTuple(types.int64, 4)
I64_1D = _rows(types.int64, 1, readonly=False)
F32_SCALAR = types.float32

_ANY_ORDER = {"reassoc", "contract", "nsz"}

_warned = False


def kernel(*arguments: Any, any_order: bool = False) -> Callable[[F], F]:
    """Compile for exactly these argument types, now, from numba's cache where that works.

    `any_order` lets additions be reordered, which vectorises a sum.

    A damaged cache entry is dropped and made again; a cache that can't be read or written is
    done without, with one warning per process.
    """

    fastmath = _ANY_ORDER if any_order else False

    def compile_now(function: F) -> F:
        dispatcher: Any = None
        for _ in range(2):
            try:
                if dispatcher is None:
                    dispatcher = njit(nogil=True, cache=True, fastmath=fastmath)(function)
                else:
                    dispatcher._cache.flush()
                return cast(F, _compiled(dispatcher, arguments))
            except Exception as error:  # any: pickle's and the file system's errors come through
                _warn(error)
        return cast(F, _compiled(njit(nogil=True, fastmath=fastmath)(function), arguments))

    return compile_now


def _compiled(dispatcher: Any, arguments: tuple[Any, ...]) -> Any:
    if hasattr(dispatcher, "compile"):  # under NUMBA_DISABLE_JIT it's the Python function
        dispatcher.compile(arguments)
        dispatcher.disable_compile()  # or an array of another type would compile again, unseen
    return dispatcher


def helper(function: F) -> F:
    """For a function that kernels of the same file call; it's compiled into them."""
    return cast(F, njit(nogil=True)(function))


def summing_helper(function: F) -> F:
    """A helper whose additions may be reordered."""
    return cast(F, njit(nogil=True, fastmath=_ANY_ORDER)(function))


def _warn(error: Exception) -> None:
    global _warned
    if not _warned:
        _warned = True
        warnings.warn(
            f"numba's cache could not be used ({type(error).__name__}: {error}); kernels are"
            " compiled again, which takes some seconds. Point NUMBA_CACHE_DIR to a folder that"
            " can be written to.",
            RuntimeWarning,
            stacklevel=4,
        )
