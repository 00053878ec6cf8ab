"""What is spent, counted so that not even a kill lets it pass the cap."""

from collections.abc import Callable, Mapping
from typing import Any

from hindsight_fast.errors import ServiceError
from hindsight_fast.papers.collect._service import money


class Purse:
    """USD spent on a collection, in this run and those before it.

    A request counts as billed from before it is sent: where its answer is lost, nobody knows
    whether it was.

    Parameters
    ----------
    cap : float
        Never to be passed.
    price : float
        What a request costs, until one says otherwise; 0: nothing is counted.
    note : callable
        Keeps a record for later runs.

    Attributes
    ----------
    left : float or None
        What the service says that the key has left, where it does.
    """

    def __init__(self, cap: float, price: float, note: Callable[[Mapping[str, Any]], None]) -> None:
        self.cap, self.price, self.spent = cap, price, 0.0
        self.left: float | None = None
        self._note = note

    def reserve(self) -> None:
        """Count a request before it is sent.

        Raises
        ------
        ServiceError
            It would pass the cap.
        """
        if not self.price:
            return
        if not self.spent + self.price <= self.cap + 1e-9:
            raise ServiceError(
                f"{money(self.spent)} are spent, and a further request would pass the "
                f"{money(self.cap)} of --max-spend; what came is kept: the same command with a "
                "larger --max-spend goes on from there"
            )
        self.spent = round(self.spent + self.price, 6)
        self._note({"spent": self.spent})

    def settle(self, cost: float | None) -> None:
        """Put what was billed (None: not known) in the place of what was reserved."""
        if not self.price or cost is None:
            return
        self.spent = round(self.spent - self.price + cost, 6)
        self.price = cost or self.price

    def afford(self, requests: int) -> None:
        """Refuse to begin what would end at the cap.

        Raises
        ------
        ServiceError
            So many more requests would pass it.
        """
        needed = self.spent + requests * self.price
        if self.price and not needed <= self.cap + 1e-9:
            raise ServiceError(
                f"all pages together would cost about {money(needed)}, of which "
                f"{money(self.spent)} are spent; --max-spend allows {money(self.cap)}. What came "
                "is kept: the same command with a larger --max-spend goes on from there"
            )
