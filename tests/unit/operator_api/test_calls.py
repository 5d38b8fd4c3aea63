"""Pages of very many things: in order and whole."""

from duenotice.bounds import PAGE_BYTES
from duenotice.operator_api.calls import Paging
from duenotice.wire.operator import Page

FLEET = {f"vm-{number:04}": number for number in range(1000)}


def _page(paging: Paging) -> Page[str]:
    return paging.page_of_names(list(FLEET), lambda name: name if FLEET[name] % 2 == 0 else None)


def _all(limit: int) -> list[str]:
    cursor, found = "", list[str]()
    while True:
        answer = _page(Paging(limit, cursor))
        found += answer.items
        assert len(answer.items) == limit or answer.next is None
        if answer.next is None:
            return found
        cursor = answer.next


def test_pages_add_up_to_everything_in_order() -> None:
    """What is left out by a filter leaves no gap in a page."""
    wanted = [name for name, number in FLEET.items() if number % 2 == 0]
    for limit in (1, 7, 499, 500, 1000):
        assert _all(limit) == wanted, limit


def test_a_page_goes_on_behind_a_name_that_is_gone() -> None:
    assert _page(Paging(1, "vm-0003-gone")).items == ("vm-0004",)


def test_a_page_ends_at_its_bytes_and_the_next_goes_on_behind_it() -> None:
    """Nothing is left out, nothing comes twice, and what is larger than a page is a page of its own (S24)."""
    large = {"a": 10, "b": PAGE_BYTES // 2, "c": PAGE_BYTES // 2, "d": PAGE_BYTES * 2, "e": 10, "f": 10}
    shown: list[str] = []

    def show(name: str) -> str:
        shown.append(name)
        return name * large[name]

    def both(cursor: str) -> tuple[Page[str], Page[str]]:
        paging = Paging(100, cursor)
        return paging.page(large, str, show), paging.page_of_names(list(large), lambda name: name * large[name])

    cursor: str | None = ""
    pages = list[str]()
    while cursor is not None:
        page, same = both(cursor)
        assert page == same
        pages.append("".join(item[0] for item in page.items))
        cursor = page.next
    assert pages == ["ab", "c", "d", "ef"]
    assert "".join(shown) == "abc" + "cd" + "de" + "ef", "a page makes one thing more than it has"
