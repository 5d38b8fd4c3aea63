"""The search: which names have a text, and which of them come first."""

import random

import pytest

from duenotice.operator_api.search import BEGINS, EXACT, INSIDE, MOST_OF_KIND, WORD, Candidate, VmNames, best, rank_of


@pytest.mark.parametrize(
    ("text", "names", "rank"),
    [
        ("web", ["web"], EXACT),
        ("web", ["set/web", "web"], EXACT),
        ("web", ["web-1"], BEGINS),
        ("web", ["set/web-1"], WORD),
        ("web", ["cobweb"], INSIDE),
        ("web", ["db"], None),
    ],
)
def test_the_whole_name_counts_most_then_its_beginning_then_that_of_a_word(
    text: str, names: list[str], rank: int | None
) -> None:
    assert rank_of(text, *names) == rank


def test_names_are_found_in_one_text_in_the_order_they_stand_in() -> None:
    """The same name first, then those that begin with it, then the others; upper and lower case are the same."""
    names = VmNames(["db-1", "Web-1", "web-2", "web-10", "my-web-1"])
    assert list(names.find("web-1")) == ["Web-1", "web-10", "my-web-1"]
    assert list(names.find("web")) == ["Web-1", "web-2", "web-10", "my-web-1"]
    assert list(names.find("x")) == [] == list(VmNames(()).find("x"))


def test_every_name_with_the_text_is_found() -> None:
    """Compared with a plain scan, as long as they are few."""
    chance = random.Random(7)
    names = sorted({"".join(chance.choices("ab-1", k=chance.randint(1, 6))) for _ in range(60)})
    for text in ("a", "ab", "-1", "b-", "1a"):
        assert set(VmNames(names).find(text)) == {name for name in names if text in name}, text


def test_many_of_one_kind_do_not_hide_another() -> None:
    """At most eight of a kind; that there are more is said."""
    vms = [Candidate(BEGINS, 0, f"web-{n:02}", f"web-{n}", "") for n in range(20)]
    group = [Candidate(EXACT, 1, "set/web", "set/web", "set")]
    found = best([vms, group], 20)
    assert [hit.name for hit in found.items] == ["set/web", *(f"web-{n}" for n in range(MOST_OF_KIND))]
    assert (found.items[0].exact, found.items[1].exact, found.more) == (True, False, True)
    assert best([vms[:2], group], 2).more
    assert not best([vms[:2], group], 3).more
