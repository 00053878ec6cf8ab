"""Rows of bytes by key in one SQLite file that several processes share, of bounded size.

SQLite, because it is in the standard library and does just what is hard here: readers that never
wait, writers that wait for each other, and a file that is whole after a kill at any moment
(write-ahead log, https://www.sqlite.org/wal.html). Its locks work between the processes of one
machine, not over a network.
"""

import fcntl
import os
import sqlite3
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar
from weakref import WeakSet

from hindsight_fast.errors import ArtefactError, StorageError, UsageError
from hindsight_fast.storage import storage_errors

T = TypeVar("T")

FILE = "vectors.sqlite"
MIN_LIMIT = 16 << 20  # bytes; a few transactions

_LOCK_FILE = ".lock"
_OURS = {_LOCK_FILE, FILE, f"{FILE}-wal", f"{FILE}-shm", f"{FILE}-journal"}
_APPLICATION, _VERSION = 0x48466376, 1  # "HFcv"
_PAGE = 16_384  # bytes: five rows of 768 numbers, little of it left empty
_LEAST = 512  # bytes of the smallest file of SQLite, which takes less for an empty one
_WAL = 32 << 20  # bytes of write-ahead log that stay when it has been emptied
_PART = 256  # rows of a transaction
_BUSY_S = 60.0
_SCHEMA = (
    "CREATE TABLE vectors (key BLOB NOT NULL UNIQUE, value BLOB NOT NULL, used INTEGER NOT NULL)",
    "CREATE INDEX by_use ON vectors (used)",
    f"PRAGMA application_id = {_APPLICATION}",
    f"PRAGMA user_version = {_VERSION}",
)

# A connection must not be used on both sides of a fork, nor be copied in the middle of its work:
# forks wait for this lock, which every operation holds, and children open the file anew.
lock = threading.RLock()
_databases: "WeakSet[Database]" = WeakSet()
_abandoned: list[sqlite3.Connection] = []  # kept, since closing one here would disturb its owner


def _after_fork_in_child() -> None:
    for database in _databases:
        database.abandon()
    lock.release()


os.register_at_fork(
    before=lock.acquire, after_in_parent=lock.release, after_in_child=_after_fork_in_child
)


def hour() -> int:
    """Hours since 1970: how exactly the last use of a row is known, so that few reads write."""
    return int(time.time() // 3600)


class _Cut(sqlite3.DatabaseError):
    """What SQLite doesn't say of a file that is hardly there."""


class Database:
    """The rows of a folder; safe with several threads, forks and processes at once.

    Parameters
    ----------
    folder
        Made if it isn't there; must be empty or hold such a database.
    limit
        Bytes of the file; where a row would not fit, those not used for longest go.

    Raises
    ------
    UsageError
        The folder is a file or holds something else, or the limit is too low.
    ArtefactError
        The file is damaged.
    StorageError
        No rights, no space, no such place.
    """

    def __init__(self, folder: Path, limit: int) -> None:
        if limit < MIN_LIMIT:
            raise UsageError(f"a cache of {limit:,} bytes; expected at least {MIN_LIMIT:,}")
        self.path, self._limit = folder / FILE, limit
        self._connection: sqlite3.Connection | None = None
        if folder.exists() and not folder.is_dir():
            raise UsageError(f"{folder} is a file; a folder was expected for a cache")
        with storage_errors(f"use {folder} as a cache"):
            folder.mkdir(parents=True, exist_ok=True)
            here = {entry.name for entry in folder.iterdir()}
        if here - _OURS and FILE not in here:
            raise UsageError(
                f"{folder} holds {min(here - _OURS)} and is no cache: name an empty folder, or one "
                "that is not there yet"
            )
        with lock:
            self._open()
            _databases.add(self)

    def read(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """The values of the keys that are here; they count as used now.

        Raises
        ------
        ArtefactError, StorageError
            The file is damaged, or can't be read or written.
        """
        found: dict[bytes, bytes] = {}
        for part in _parts(keys):
            with self._work() as connection:
                marks = ",".join("?" * len(part))
                rows = connection.execute(
                    f"SELECT key, value, used FROM vectors WHERE key IN ({marks})", part
                ).fetchall()
                now = hour()
                if old := [(now, key) for key, _, used in rows if used != now]:
                    with _transaction(connection):
                        connection.executemany("UPDATE vectors SET used = ? WHERE key = ?", old)
            # What a damaged file gives in place of bytes is no value.
            found |= {key: value for key, value, _ in rows if isinstance(value, bytes)}
        return found

    def write(self, rows: Sequence[tuple[bytes, bytes]]) -> None:
        """Add rows, in place of those with the same key.

        Raises
        ------
        ArtefactError, StorageError
            The file is damaged, or can't be written.
        """
        for part in _parts(rows):
            size = sum(len(key) + len(value) + 64 for key, value in part)
            with self._work() as connection, _transaction(connection):
                self._make_room(connection, size + size // 4 + 8 * _PAGE, len(part))
                connection.executemany(
                    "INSERT OR REPLACE INTO vectors (key, value, used) VALUES (?, ?, ?)",
                    [(key, value, hour()) for key, value in part],
                )

    def all_rows(self) -> Generator[tuple[object, object]]:
        """Every key with its value, after a look at how the file is built.

        Raises
        ------
        ArtefactError, StorageError
            The file is damaged, or can't be read.
        """
        with self._work() as connection:
            if (found := connection.execute("PRAGMA integrity_check(1)").fetchone()[0]) != "ok":
                raise ArtefactError(f"the cache {self.path} is damaged: {found}")
            yield from connection.execute("SELECT key, value FROM vectors")

    def close(self) -> None:
        """Let go of the file."""
        with lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def abandon(self) -> None:
        """Forget the connection of the process that this one was forked from."""
        if self._connection is not None:
            _abandoned.append(self._connection)
            self._connection = None

    def _make_room(self, connection: sqlite3.Connection, size: int, n: int) -> None:
        """Drop the rows that were not used for longest, a part at a time, until `size` fits."""
        while _size(connection) + size > self._limit:
            dropped = connection.execute(
                "DELETE FROM vectors WHERE rowid IN "
                "(SELECT rowid FROM vectors ORDER BY used, rowid LIMIT ?)",
                (n,),
            ).rowcount
            if dropped == 0:
                raise StorageError(
                    f"the cache {self.path} has no room for {size:,} bytes more; its limit is "
                    f"{self._limit:,}"
                )

    @contextmanager
    def _work(self) -> Generator[sqlite3.Connection]:
        with lock, self._in_words():
            yield self._connection or self._open()

    def _open(self) -> sqlite3.Connection:
        """Open the file, making it if need be; one process at a time, lest two make it at once."""
        beside = self.path.with_name(_LOCK_FILE)
        with storage_errors(f"use {self.path.parent} as a cache"), beside.open("ab") as turn:
            fcntl.flock(turn, fcntl.LOCK_EX)
            with self._in_words():
                connection = sqlite3.connect(
                    self.path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False
                )
                try:
                    self._prepare(connection)
                except BaseException:
                    connection.close()
                    raise
        self._connection = connection
        return connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        if 0 < self.path.stat().st_size < _LEAST:
            raise _Cut("file is cut")
        found = (_pragma(connection, "application_id"), _pragma(connection, "user_version"))
        tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if found == (0, 0) and tables == 0:
            connection.execute(f"PRAGMA page_size = {_PAGE}")
            connection.execute("PRAGMA journal_mode = WAL")
            with _transaction(connection):
                for statement in _SCHEMA:
                    connection.execute(statement)
        elif found != (_APPLICATION, _VERSION):
            raise UsageError(
                f"{self.path} is no cache of this version of the program: name another folder"
            )
        connection.execute("PRAGMA synchronous = NORMAL")  # a power cut may lose the last rows
        connection.execute(f"PRAGMA journal_size_limit = {_WAL}")
        with _transaction(connection):
            pass  # what can't be written is told now

    @contextmanager
    def _in_words(self) -> Generator[None]:
        try:
            yield
        except (sqlite3.Error, UnicodeDecodeError) as error:  # a message may quote the damage
            name = getattr(error, "sqlite_errorname", "")
            if isinstance(error, _Cut | UnicodeDecodeError) or name.startswith(
                ("SQLITE_CORRUPT", "SQLITE_NOTADB")
            ):
                raise ArtefactError(
                    f"the cache {self.path} is damaged ({error}): remove {self.path.parent}; "
                    "nothing but the time that it saves is lost"
                ) from error
            raise StorageError(
                f"could not use the cache {self.path}: {error}; it needs a folder of this machine "
                "with free space that this user may write"
            ) from error


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])


def _size(connection: sqlite3.Connection) -> int:
    """Bytes in use, from the file's header alone."""
    pages = _pragma(connection, "page_count") - _pragma(connection, "freelist_count")
    return pages * _pragma(connection, "page_size")


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Generator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _parts(items: Sequence[T]) -> Generator[Sequence[T]]:
    for start in range(0, len(items), _PART):
        yield items[start : start + _PART]
