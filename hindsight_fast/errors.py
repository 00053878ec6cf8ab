"""The errors of hindsight_fast.

HindsightError
 ├── UsageError      what was asked for makes no sense            (exit code 2)
 ├── DataError       a record, file or table is not as it must be (exit code 3)
 ├── ArtefactError   a store, pool or index is not whole, or not the one expected (3)
 ├── EncoderError    a model or device that was asked for can't be had (exit code 4)
 ├── StorageError    no space, no rights, no such place           (exit code 5)
 └── ServiceError    a service refused or failed, or may cost no more: unfinished (exit code 6)

A message says what was given, what was expected, and what to do.
"""


class HindsightError(Exception):
    """Root of all errors that this package raises on purpose."""

    exit_code = 1


class UsageError(HindsightError):
    """The request itself makes no sense (an option, a date, a combination)."""

    exit_code = 2


class DataError(HindsightError):
    """Input data is not what it must be; the message names file, line, found and expected."""

    exit_code = 3


class ArtefactError(HindsightError):
    """A folder or file that this package wrote is damaged, incomplete or another one."""

    exit_code = 3


class EncoderError(HindsightError):
    """A model, an inference engine or a device is missing or does not do what it should."""

    exit_code = 4


class StorageError(HindsightError):
    """The file system refused: no space, no rights, a path that can't be used."""

    exit_code = 5


class ServiceError(HindsightError):
    """A service over the network failed, or its limit or the user's is reached.

    The work is not finished; what came is kept, and the same request goes on from there.
    """

    exit_code = 6
