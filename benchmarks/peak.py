"""The most private memory that this process has, looked at from time to time."""

import threading
from pathlib import Path


class Peak:
    """Looks every 20 ms while in a `with`; afterwards `private_MiB` is the most that was seen."""

    def __init__(self) -> None:
        self.private_MiB = 0.0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> "Peak":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._done.wait(0.02):
            lines = Path("/proc/self/status").read_text().splitlines()
            anon = next(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))
            self.private_MiB = max(self.private_MiB, anon / 1024)
