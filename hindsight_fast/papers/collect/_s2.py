"""Semantic Scholar: bulk search of the Academic Graph API, continued by tokens.

Facts from its documentation (api.semanticscholar.org/api-docs/graph): up to 1,000 papers a call,
ordered by paper id; a token as long as there is more; ``total`` is an estimate; the query is
matched with title and abstract, stemmed, ``|`` is or, quotes make a phrase. A paper of which only
the year is known counts as published on its first day.
"""

from collections.abc import Sequence

import msgspec

from hindsight_fast.papers.collect._service import Malformed, Page, Query, Service, Window

_FIELDS = (
    "paperId,corpusId,externalIds,url,title,abstract,venue,publicationVenue,year,publicationDate,"
    "citationCount,fieldsOfStudy,s2FieldsOfStudy,publicationTypes,journal,authors"
)


class _Record(msgspec.Struct):
    paperId: str | None = None


class _Answer(msgspec.Struct):
    data: list[_Record]
    total: int | str = 0
    token: str | None = None


def _authorise(key: str) -> dict[str, str]:
    return {"x-api-key": key}


def _ask(query: Query, window: Window, token: str | None) -> dict[str, str]:
    asked = {
        "query": query.text,
        "publicationDateOrYear": f"{window.first}:{window.last}",
        "fields": _FIELDS,
    }
    return asked if token is None else asked | {"token": token}


def _parse(body: bytes) -> Page:
    try:
        answer = msgspec.json.decode(body, type=_Answer)
        total = int(answer.total)
    except (msgspec.MsgspecError, ValueError) as error:
        raise Malformed(str(error)) from error
    ids = [record.paperId or "" for record in answer.data]
    return Page(ids, max(total, 0), answer.token or None)


def _any_of(phrases: Sequence[str]) -> str:
    return " | ".join(f'"{phrase}"' for phrase in phrases)


S2 = Service(
    name="s2",
    title="Semantic Scholar",
    url="https://api.semanticscholar.org",
    url_variable="HINDSIGHT_S2_URL",
    path="/graph/v1/paper/search/bulk",
    key_variables=("S2_API_KEY", "SEMANTIC_SCHOLAR_API_KEY"),
    keys_from="www.semanticscholar.org/product/api",
    key_needed=False,
    rate=1,
    page_size=1000,
    price=0,
    longest_url=8000,
    fields=_FIELDS,
    authorise=_authorise,
    ask=_ask,
    parse=_parse,
    any_of=_any_of,
)
