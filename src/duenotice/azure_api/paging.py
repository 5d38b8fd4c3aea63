"""Pages of lists: how many items and bytes each has, and the link to the next one (M04, S24)."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from urllib.parse import urlencode

from starlette.requests import Request

from duenotice.azure_api.shape import AzureProblem, encode
from duenotice.azure_api.sign_in import base_of
from duenotice.bounds import LONGEST_ITEM, PAGE_BYTES, PAGE_ROWS
from duenotice.domain.fleet import Group

TOKEN = "$skiptoken"


def page_of(request: Request, names: Sequence[str], shown: Callable[[str], object]) -> bytes:
    """The page that a request asks for of things with their names in order, as JSON; a thing that is None is left out.

    It ends at its number of items, or before the item that would make it too large.
    """
    after = request.query_params.get(TOKEN, "")
    page, size, last = list[bytes](), 0, ""
    for place in range(bisect_right(names, after), len(names)):
        if (item := shown(names[place])) is None:
            continue
        encoded = encoded_item(item, names[place])
        size += len(encoded)
        if page and (len(page) == PAGE_ROWS or size > PAGE_BYTES):
            link = b',"nextLink":' + encode(_next(request, last))
            break
        page.append(encoded)
        last = names[place]
    else:
        link = b""
    return b'{"value":[%b]%b}' % (b",".join(page), link)


def encoded_item(item: object, name: str) -> bytes:
    """One thing as JSON; refused if nobody could be asked to hold it."""
    encoded = encode(item)
    if len(encoded) > LONGEST_ITEM:
        raise too_large(f"{name[:80]!r}", LONGEST_ITEM, "The operator's API has its VMs in pages: GET /v1/vms.")
    return encoded


def too_large(what: str, most: int, hint: str) -> AzureProblem:
    """The refusal of a thing that is larger than its answer may be; the code is Azure's."""
    message = f"{what} is larger than {most} bytes."
    return AzureProblem.of(400, "ResponsePayloadTooLarge", message, hint=hint)


def names_of(names: Sequence[str], group: Group) -> Sequence[str]:
    """Those of the instances of a scale set, as far as names tell."""
    begin = f"{group.name}_"
    return names[bisect_left(names, begin) : bisect_left(names, f"{group.name}`")]


def _next(request: Request, last: str) -> str:
    query = {**request.query_params, TOKEN: last}
    return f"{base_of(request)}{request.url.path}?{urlencode(query)}"
