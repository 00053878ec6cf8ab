"""Vectors of texts that were encoded before, in this run or another.

A vector is known by all that it depends on: the two texts as the encoder gets them, so that no
other version of a cleaning rule can find it; the fingerprint of the encoder, which covers weights,
separator and longest input; the precision; and whether a processor or a GPU computed it, since
those agree to a tolerance only.
"""

import hashlib
import struct
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hindsight_fast.encoding._database import FILE, Database, lock
from hindsight_fast.errors import ArtefactError, StorageError
from hindsight_fast.store import UNIT_TOLERANCE
from hindsight_models import Encoded

CACHE_LIMIT = 4 << 30
"""Bytes of a cache's file: 1.3 million vectors of 768 numbers."""

_FORMAT = b"hindsight-fast vector 1"
_HEAD = struct.Struct("<iBB")  # n_tokens, truncated, retried
_CHECK = 16  # bytes of the checksum at the end


class Identified(Protocol):
    """What the vectors of an encoder are known by."""

    @property
    def fingerprint(self) -> str: ...

    @property
    def precision(self) -> str: ...

    @property
    def device(self) -> str: ...


@dataclass(slots=True)
class CacheUse:
    """What a cache was good for since somebody last looked.

    Attributes
    ----------
    hits, misses : int
        Distinct texts of a batch that were there, and that were not.
    damaged : int
        Misses that were there, but not as they were written.
    """

    hits: int = 0
    misses: int = 0
    damaged: int = 0


class VectorCache:
    """A folder of vectors; safe with several threads, forks and processes of one machine.

    A cache only saves time. So one that can't be opened is an error, while one that fails later, in
    the middle of a night's work, is given up: `trouble` says why, and texts are encoded anew.

    Parameters
    ----------
    folder
        Made if it isn't there.
    limit
        Bytes that its file may take; the vectors that were not used for longest go first.

    Raises
    ------
    UsageError
        The folder holds something else, or the limit is below 16 MiB.
    ArtefactError
        The file is damaged.
    StorageError
        No rights, no space, no such place.
    """

    def __init__(self, folder: str | Path, limit: int = CACHE_LIMIT) -> None:
        self.folder = Path(folder)
        self.use = CacheUse()
        self.trouble: str | None = None
        self._rows = Database(self.folder, limit)

    def facts(self) -> dict[str, Any]:
        """Folder, hits and misses, and what went wrong."""
        return {"folder": str(self.folder), **asdict(self.use), "trouble": self.trouble}

    def close(self) -> None:
        """Let go of the file; the next use opens it again."""
        self._rows.close()

    def verify(self) -> list[str]:
        """Check every byte of every vector; returns what was checked, a phrase each.

        Raises
        ------
        ArtefactError
            The file is damaged, which costs no more than encoding some texts again.
        StorageError
            It can't be read.
        """
        n = 0
        for key, stored in self._rows.all_rows():
            # A damaged file may give anything in place of bytes.
            if (
                not isinstance(key, bytes)
                or not isinstance(stored, bytes)
                or stored[-_CHECK:] != _checksum(key, stored[:-_CHECK])
            ):
                raise ArtefactError(
                    f"a vector in {self.folder} is not as it was written, and so never used: "
                    "remove the folder, or leave it"
                )
            n += 1
        return [f"{n} vectors"]

    def fill(self, keys: Sequence[bytes], out: Encoded) -> list[int]:
        """Put what is here into the rows of `out`; returns the places of the texts that are not.

        Parameters
        ----------
        keys
            `vector_keys` of n different texts.
        out
            Room for n vectors.
        """
        found: dict[bytes, bytes] = {}
        if self.trouble is None:
            try:
                found = self._rows.read(keys)
            except (ArtefactError, StorageError) as error:
                self._give_up(error)
        missing = [i for i, key in enumerate(keys) if not _unpack(key, found.get(key), out, i)]
        with lock:
            self.use.hits += len(keys) - len(missing)
            self.use.misses += len(missing)
            self.use.damaged += sum(keys[i] in found for i in missing)
        return missing

    def add(self, keys: Sequence[bytes], encoded: Encoded) -> None:
        """Keep the vectors of n texts with these keys."""
        if self.trouble is not None:
            return
        good = _unit(encoded.vectors)
        rows = [(key, _pack(key, encoded, i)) for i, key in enumerate(keys) if good[i]]
        try:
            self._rows.write(rows)
        except (ArtefactError, StorageError) as error:
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        """Nobody else is to wait for a file that is of no more use here."""
        self.trouble = str(error)
        self.close()


def is_cache(folder: Path) -> bool:
    """Tell whether a folder is a cache of vectors."""
    return (folder / FILE).is_file()


def vector_keys(encoder: Identified, pairs: Sequence[tuple[str, str]]) -> list[bytes]:
    """What the vectors of (head, body) texts are known by, 16 bytes each."""
    kind = encoder.device.partition(":")[0]
    maker = hashlib.blake2b(digest_size=16)
    for part in (_FORMAT, encoder.fingerprint.encode(), encoder.precision.encode(), kind.encode()):
        maker.update(struct.pack("<q", len(part)) + part)
    keys = list[bytes]()
    for head, body in pairs:
        state = maker.copy()
        first = head.encode("utf-8", "surrogatepass")
        state.update(struct.pack("<q", len(first)) + first)
        state.update(body.encode("utf-8", "surrogatepass"))
        keys.append(state.digest())
    return keys


def _pack(key: bytes, encoded: Encoded, i: int) -> bytes:
    facts = (int(encoded.n_tokens[i]), bool(encoded.truncated[i]), bool(encoded.retried[i]))
    value: bytes = _HEAD.pack(*facts) + encoded.vectors[i].astype("<f4").tobytes()
    return value + _checksum(key, value)


def _unpack(key: bytes, stored: bytes | None, out: Encoded, i: int) -> bool:
    """Read a stored vector into row i; False if it is not just what was written for that key."""
    size = _HEAD.size + 4 * out.vectors.shape[1]
    if stored is None or len(stored) != size + _CHECK:
        return False
    value = stored[:size]
    if stored[size:] != _checksum(key, value):
        return False
    out.n_tokens[i], out.truncated[i], out.retried[i] = _HEAD.unpack_from(value)
    out.vectors[i] = np.frombuffer(value, "<f4", offset=_HEAD.size)
    return bool(_unit(out.vectors[i : i + 1])[0])


def _checksum(key: bytes, value: bytes) -> bytes:
    return hashlib.blake2b(key + value, digest_size=_CHECK).digest()


def _unit(vectors: NDArray[np.float32]) -> NDArray[np.bool_]:
    norms = np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64))
    unit: NDArray[np.bool_] = np.abs(norms - 1.0) < UNIT_TOLERANCE  # NaN is not
    return unit
