"""The few instructions of pickle that describe tensors, followed one by one.

A pickle may ask for any function of the machine to be called. Here nothing is ever imported or
called: names that describe tensors are known, any other is refused, and so is any instruction that
tensors don't need. The result holds dicts, lists, tuples, text, numbers and `View`s.
"""

import pickletools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from hindsight_models.errors import ModelError

MAX_PICKLE = 4_000_000  # bytes; that of a thousand tensors has 200,000


class Storage(NamedTuple):
    """Numbers in a row, which one or several tensors show."""

    dtype: str
    size: int  # bytes of one number
    key: str
    length: int  # how many numbers


class View(NamedTuple):
    """A tensor: which numbers of a storage, in which order."""

    storage: Storage
    offset: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]


class _Known(NamedTuple):
    """A name that the pickle asked for and that is known."""

    name: str


_STORAGES = {
    "FloatStorage": ("float32", 4),
    "HalfStorage": ("float16", 2),
    "BFloat16Storage": ("bfloat16", 2),
    "DoubleStorage": ("float64", 8),
    "LongStorage": ("int64", 8),
    "IntStorage": ("int32", 4),
    "ShortStorage": ("int16", 2),
    "CharStorage": ("int8", 1),
    "ByteStorage": ("uint8", 1),
    "BoolStorage": ("bool", 1),
}
_TENSOR, _PARAMETER = "torch._utils._rebuild_tensor_v2", "torch._utils._rebuild_parameter"
_ORDERED = "collections.OrderedDict"
_KNOWN = {
    *(_TENSOR, _PARAMETER, _ORDERED),
    *(f"{module}.{name}" for module in ("torch", "torch.cuda") for name in _STORAGES),
}

_CARRIED = {
    *("BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT"),
    *("BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "BINSTRING", "SHORT_BINSTRING"),
}
_FRESH: Mapping[str, Callable[[], object]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_TUPLE": tuple,
    "EMPTY_LIST": list,
    "EMPTY_DICT": dict,
}


def read_pickle(file: BinaryIO, path: Path) -> object:
    """The value of the pickle that starts where `file` is; it is left behind the pickle's end.

    Raises
    ------
    ModelError
        It asks for an object or an instruction that tensors don't need, or is too long; `path`
        is the file to blame.
    LookupError, TypeError, ValueError
        It is no pickle, or damaged.
    """
    machine, start = _Machine(path), file.tell()
    for opcode, argument, at in pickletools.genops(file):
        if at is not None and at - start > MAX_PICKLE:
            raise ModelError(f"{path}: its list of tensors is longer than {MAX_PICKLE} bytes")
        machine.follow(opcode.name, argument)
    return machine.stack.pop()


class _Machine:
    """The stack that a pickle's instructions work on."""

    def __init__(self, path: Path) -> None:
        self.stack: list[Any] = []
        self._path = path
        self._marks: list[int] = []
        self._memo: dict[int, Any] = {}

    def follow(self, instruction: str, argument: Any) -> None:
        """Follow one instruction, by the name that pickletools has for it."""
        stack = self.stack
        if instruction in _CARRIED:
            stack.append(argument)
            return
        if instruction in _FRESH:
            stack.append(_FRESH[instruction]())
            return
        match instruction:
            case "PROTO" | "FRAME" | "STOP":
                pass
            case "MARK":
                self._marks.append(len(stack))
            case "TUPLE":
                stack.append(tuple(self._from_mark()))
            case "TUPLE1" | "TUPLE2" | "TUPLE3":
                size = int(instruction[-1])
                stack[-size:] = [tuple(stack[-size:])]
            case "BINPUT" | "LONG_BINPUT":
                self._memo[argument] = stack[-1]
            case "MEMOIZE":
                self._memo[len(self._memo)] = stack[-1]
            case "BINGET" | "LONG_BINGET":
                stack.append(self._memo[argument])
            case "GLOBAL" | "INST":
                stack.append(self._known(argument.replace(" ", ".")))
            case "STACK_GLOBAL":
                name, module = stack.pop(), stack.pop()
                stack.append(self._known(f"{_typed(module, str)}.{_typed(name, str)}"))
            case "BINPERSID":
                stack.append(_storage(stack.pop()))
            case "REDUCE":
                arguments, function = stack.pop(), stack.pop()
                stack.append(_made(function, arguments))
            case "BUILD":
                stack.pop()  # the _metadata of a state_dict, which no tensor needs
            case "APPEND" | "APPENDS":
                added = [stack.pop()] if instruction == "APPEND" else self._from_mark()
                _typed(stack[-1], list).extend(added)
            case "SETITEM" | "SETITEMS":
                one = instruction == "SETITEM"
                pairs = [stack.pop(-2), stack.pop()] if one else self._from_mark()
                _set(stack[-1], pairs)
            case _:
                raise ModelError(
                    f"{self._path} uses pickle's {instruction}, which no tensor needs; it was "
                    "not opened"
                )

    def _from_mark(self) -> list[Any]:
        at = self._marks.pop()
        taken = self.stack[at:]
        del self.stack[at:]
        return taken

    def _known(self, name: str) -> _Known:
        if name not in _KNOWN:
            raise ModelError(f"{self._path} asks for {name}, which is no tensor; it was not opened")
        return _Known(name)


def _typed(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise TypeError(f"{type(value).__name__} where a {kind.__name__} belongs")
    return value


def _set(target: Any, pairs: list[Any]) -> None:
    """Put keys and values, in turn, into a dict; keys are text, so none is costly to hash."""
    for key, value in zip(pairs[::2], pairs[1::2], strict=True):
        _typed(target, dict)[_typed(key, str)] = value


def _storage(value: Any) -> Storage:
    """From torch's persistent id: ("storage", type, key, device, count), in old files one more."""
    what, kind, key, _, length, *rest = _typed(value, tuple)
    if what != "storage" or rest not in ([], [None]):
        raise ValueError("a storage that is part of another")
    dtype, size = _STORAGES[_typed(kind, _Known).name.rpartition(".")[2]]
    return Storage(dtype, size, _typed(key, str), _typed(length, int))


def _made(function: Any, arguments: Any) -> object:
    """What one of the known functions makes of its arguments."""
    name = _typed(function, _Known).name
    if name == _ORDERED:
        if arguments != ():
            raise ValueError("an OrderedDict that is made from something")
        return {}
    if name == _PARAMETER:
        return _typed(arguments[0], View)
    if name != _TENSOR:
        raise TypeError(f"{name}, which is called")
    storage, offset, shape, stride, _, _, *metadata = arguments
    if any(metadata):
        raise ValueError("a tensor that is conjugated or negated")
    for numbers in (shape, stride):
        for number in _typed(numbers, tuple):
            _typed(number, int)
    return View(_typed(storage, Storage), _typed(offset, int), shape, stride)
