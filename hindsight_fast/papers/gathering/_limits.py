"""How much of the papers is in memory at a time."""

from typing import NamedTuple


class Limits(NamedTuple):
    """How much is in memory at a time.

    Attributes
    ----------
    file_rows, file_bytes : int
        Records that are written as one file: as soon as there are so many, or so much text.
    batch_rows : int
        Rows of a file that are read together at least.
    key_rows : int
        Rows of which a key is compared at a time.
    bin_bytes : int
        Text of records that are merged together; more only where those of one paper are.
    part_bytes : int
        Text of papers that are handed on together.
    """

    file_rows: int = 1 << 17
    file_bytes: int = 128 << 20
    batch_rows: int = 1 << 10
    key_rows: int = 1 << 23
    bin_bytes: int = 128 << 20
    part_bytes: int = 64 << 20
