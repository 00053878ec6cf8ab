"""OpenAlex: search of works, continued by cursors, each page billed.

Facts from its documentation (developers.openalex.org): up to 100 works a call; a key is needed,
and may travel in the Authorization header; a search is billed 0.001 USD a call, of which a free
key has 1 USD a day; what a call cost and what is left is in headers; a request's address has 4,094
bytes at most; ``OR`` and quotes as usual; the text is looked for in title, abstract and, where it
is known, the full text. By default the order is by relevance, which may change while one pages:
works are asked for by date instead.
"""

from collections.abc import Sequence

import msgspec

from hindsight_fast.papers.collect._service import Malformed, Page, Query, Service, Window

_FIELDS = (
    "id,doi,title,display_name,publication_year,publication_date,language,type,primary_location,"
    "locations,authorships,cited_by_count,counts_by_year,is_retracted,primary_topic,topics,"
    "abstract_inverted_index,updated_date"
)


class _Work(msgspec.Struct):
    id: str | None = None


class _Meta(msgspec.Struct):
    count: int
    next_cursor: str | None = None
    cost_usd: float | None = None


class _Answer(msgspec.Struct):
    meta: _Meta
    results: list[_Work]


def _authorise(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def _ask(query: Query, window: Window, cursor: str | None) -> dict[str, str]:
    return {
        "search": query.text,
        "filter": f"from_publication_date:{window.first},to_publication_date:{window.last}",
        "sort": "publication_date",
        "select": _FIELDS,
        "per_page": "100",
        "cursor": cursor or "*",
    }


def _parse(body: bytes) -> Page:
    try:
        answer = msgspec.json.decode(body, type=_Answer)
    except msgspec.MsgspecError as error:
        raise Malformed(str(error)) from error
    meta = answer.meta
    ids = [work.id or "" for work in answer.results]
    return Page(ids, max(meta.count, 0), meta.next_cursor or None, meta.cost_usd)


def _any_of(phrases: Sequence[str]) -> str:
    return " OR ".join(f'"{phrase}"' for phrase in phrases)


OPENALEX = Service(
    name="openalex",
    title="OpenAlex",
    url="https://api.openalex.org",
    url_variable="HINDSIGHT_OPENALEX_URL",
    path="/works",
    key_variables=("OPENALEX_API_KEY",),
    keys_from="openalex.org/settings/api, free of charge",
    key_needed=True,
    rate=10,
    page_size=100,
    price=0.001,
    longest_url=4094,
    fields=_FIELDS,
    authorise=_authorise,
    ask=_ask,
    parse=_parse,
    any_of=_any_of,
)
