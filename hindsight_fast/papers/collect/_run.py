"""Collecting: from queries to a folder of raw answers and a table, going on after any stop."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hindsight_fast.config import fingerprint
from hindsight_fast.errors import ServiceError, UsageError
from hindsight_fast.papers.answers import (
    KIND,
    LIST,
    RAW,
    TABLE,
    Kept,
    hash_of,
    packed,
    slugs,
    unpacked,
    write_list,
)
from hindsight_fast.papers.collect._client import Client, Manners, Refused
from hindsight_fast.papers.collect._paging import Paging, digest
from hindsight_fast.papers.collect._purse import Purse
from hindsight_fast.papers.collect._service import Malformed, Page, Query, Service, Window
from hindsight_fast.papers.collect._table import write_table
from hindsight_fast.papers.collect._watch import SILENT, Plan, Progress, Watch
from hindsight_fast.storage import Steps, existing, publish_file, publish_stepwise, storage_errors

_RESTARTS = 3


def collect(
    service: Service,
    queries: Sequence[Query],
    window: Window,
    out: Path,
    *,
    max_spend: float = 0.0,
    manners: Manners | None = None,
    overwrite: bool = False,
    watch: Watch = SILENT,
) -> tuple[dict[str, Any], bool]:
    """Collect the papers that a service finds, into a folder.

    Parameters
    ----------
    service : Service
    queries : sequence of Query
        Asked one after the other; a paper that several find is there several times.
    window : Window
    out : Path
        A collection; unfinished work is in a hidden folder beside it.
    max_spend : float
        USD that all of it may cost, over all runs, where requests are billed.
    manners : Manners, optional
        By default the pace that is welcome.
    overwrite : bool
        Replace another collection, or unfinished work for one.
    watch : Watch

    Returns
    -------
    dict
        What was collected, as the manifest says.
    bool
        Whether there was anything to do.

    Raises
    ------
    UsageError
        Another collection is there, no key, one that is refused, or a query that is refused.
    ServiceError
        Not finished: the service failed, or the cap is reached. What came is kept.
    StorageError
        The file system refuses.
    """
    if not queries:
        raise UsageError("nothing is asked for: a query or a topic is needed")
    made_from = {
        "service": service.name,
        "queries": [f"{query.name}: {query.text}" for query in queries],
        "dates": str(window),
        "fields": service.fields,
    }
    mark = fingerprint(made_from)
    if (there := existing(out, KIND, mark, overwrite=overwrite)) is not None:
        return dict(there.body), False
    manners = manners or Manners(service.rate)
    with (
        Client(service, manners, watch.said) as client,
        publish_stepwise(out, KIND, mark, made_from, overwrite=overwrite) as work,
    ):
        for query in queries:
            client.check_length(query, window)
        job = _Job(work, client, service, queries, window, max_spend, watch)
        job.run(manners)
        job.finish()
        return dict(work.body), True


class _Job:
    """One run of a collection."""

    def __init__(
        self,
        work: Steps,
        client: Client,
        service: Service,
        queries: Sequence[Query],
        window: Window,
        max_spend: float,
        watch: Watch,
    ) -> None:
        self._work, self._client, self._service = work, client, service
        self._window, self._watch = window, watch
        self._raw = work.folder / RAW
        self._purse = Purse(max_spend, service.price, work.note)
        beginnings = slugs([query.name for query in queries])
        self._pagings = [
            Paging(number, query, slug)
            for number, (query, slug) in enumerate(zip(queries, beginnings, strict=True))
        ]
        with storage_errors(f"write {self._raw}"):
            self._raw.mkdir(exist_ok=True)
            self._restore()

    def _restore(self) -> None:
        """Take up what earlier runs noted, as far as its files are whole; drop all other files."""
        begun_anew = set[int]()
        for record in self._work.noted:
            self._purse.spent = record.get("spent", self._purse.spent)
            if "restarted" in record:
                number = int(record["restarted"])
                self._pagings[number].pages.clear()
                begun_anew.add(number)
            if "page" in record:
                kept = Kept.from_record(record)
                paging = self._pagings[kept.query]
                if kept.page == len(paging.pages) + 1:
                    paging.pages.append(kept)
                    begun_anew.discard(kept.query)
        known = set[str]()
        for paging in self._pagings:
            whole = [page.is_whole(self._raw) for page in paging.pages]
            if not all(whole):
                del paging.pages[whole.index(False) :]
            elif paging.number not in begun_anew:
                known.add(paging.next_file)  # came, but the kill did before it was noted
            known |= {page.file for page in paging.pages if page.file}
        for path in self._raw.iterdir():
            if path.name not in known:
                path.unlink()

    def run(self, manners: Manners) -> None:
        """Ask for all pages: the first of each query, which tells how many there are, then all."""
        for paging in self._pagings:
            while not paging.pages:
                self._step(paging)
        plan = self._plan(manners)
        self._watch.plan(plan)
        self._purse.afford(plan.pages_left)
        for paging in self._pagings:
            while not paging.done:
                self._step(paging)

    def _plan(self, manners: Manners) -> Plan:
        size = self._service.page_size
        left = sum(
            max(-(-(paging.announced - paging.n) // size), 1)
            for paging in self._pagings
            if not paging.done
        )
        billed = bool(self._service.price)
        return Plan(
            announced={paging.query.name: paging.announced for paging in self._pagings},
            pages_left=left,
            cost_left=round(left * self._purse.price, 6) if billed else None,
            spent=self._purse.spent if billed else None,
            left=self._purse.left,
            seconds_left=left / manners.rate,
        )

    def _step(self, paging: Paging) -> None:
        """Get the next page of a query."""
        if self._adopt(paging):
            return
        asks = paging.pages[-1].following if paging.pages else None
        params = self._service.ask(paging.query, self._window, asks)
        try:
            body, page = self._client.page(
                params, lambda got: paging.check(self._service.parse(got)), self._purse
            )
        except Refused as refused:
            self._begin_anew(paging, refused)
            return
        self._keep(paging, page, body, datetime.now(UTC))

    def _adopt(self, paging: Paging) -> bool:
        """Keep an answer that came when the kill did, before it was noted: it is paid for."""
        path = self._raw / paging.next_file
        if not path.exists():
            return False
        body = unpacked(path.read_bytes())
        try:
            page = paging.check(self._service.parse(body))
        except Malformed:
            path.unlink()
            return False
        self._keep(paging, page, body, datetime.fromtimestamp(path.stat().st_mtime, UTC))
        return True

    def _begin_anew(self, paging: Paging, refused: Refused) -> None:
        """Page through a query from the start: what asks for its next page is not taken any more.

        Its pages are dropped, so that none is there twice.
        """
        title, name, page = self._service.title, paging.query.name, len(paging.pages) + 1
        if not paging.pages and not refused.astray:
            self._work.keep = any(one.pages for one in self._pagings)
            raise UsageError(f"{title} refuses the query {paging.query.text!r}: {refused}")
        paging.restarts += 1
        if paging.restarts > _RESTARTS or not paging.pages:
            raise ServiceError(
                f"{title} doesn't page through {name!r} as it should: page {page}, again and "
                f"again: {refused}; what came is kept: the same command tries once more"
            )
        self._watch.said(
            f"{title} doesn't give page {page} of {name!r} ({refused}): begun anew with its first"
        )
        self._work.note({"restarted": paging.number, "spent": self._purse.spent})
        with storage_errors(f"write {self._raw}"):
            for kept in paging.pages:
                if kept.file:
                    (self._raw / kept.file).unlink(missing_ok=True)
        paging.pages.clear()

    def _keep(self, paging: Paging, page: Page, body: bytes, at: datetime) -> None:
        content = packed(body) if page.ids else b""
        kept = Kept(
            query=paging.number,
            page=len(paging.pages) + 1,
            name=paging.query.name,
            n=len(page.ids),
            total=page.total,
            digest=digest(page.ids),
            following=page.following,
            file=paging.next_file if page.ids else None,
            size=len(content),
            blake2b=hash_of(content),
            at=at.isoformat(timespec="seconds"),
        )
        if kept.file:
            with publish_file(self._raw / kept.file) as path, storage_errors(f"write {path}"):
                path.write_bytes(content)
        self._work.note(kept.record() | {"spent": self._purse.spent})
        paging.pages.append(kept)
        self._watch.progress(
            Progress(
                papers=sum(one.n for one in self._pagings),
                announced=sum(one.announced for one in self._pagings),
                pages=sum(len(one.pages) for one in self._pagings),
                query=paging.query.name,
                spent=self._purse.spent if self._service.price else None,
                left=self._purse.left,
            )
        )

    def finish(self) -> None:
        """Make the table and the list of pages, and say in the manifest what there is."""
        pages = [page for paging in self._pagings for page in paging.pages]
        folder = self._work.folder
        write_list(folder / LIST, pages)
        files = [page.file for page in pages if page.file]
        counts = write_table(folder, files, folder / TABLE)
        self._work.body |= {
            "service": self._service.name,
            "from": str(self._window.first),
            "until": str(self._window.last),
            "fields": self._service.fields,
            "queries": [paging.facts() for paging in self._pagings],
            **counts,
            "n_pages": len(pages),
            "raw_bytes": sum(page.size for page in pages),
            "spent_usd": self._purse.spent if self._service.price else None,
            "collected_from": min(page.at for page in pages),
            "collected_until": max(page.at for page in pages),
        }
