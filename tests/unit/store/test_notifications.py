"""What a notification says; anybody who may connect to the database may send one."""

import pytest

from duenotice.engine.members import Appended, Applied, Changed, Hid, Hold, MemberBeat, News, Shown
from duenotice.store.postgres_connection import news_of


@pytest.mark.parametrize(
    ("payload", "news"),
    [
        ("changed", Changed()),
        ("appended 12", Appended(12)),
        ("shown 7", Shown(7)),
        ("hid 3 6f9c", Hid("6f9c", 3)),
        ("hid 3 a life with blanks", Hid("a life with blanks", 3)),
        ("applied 3 6f9c", Applied("6f9c", 3)),
        ("hold 3", Hold(3)),
        ("beat 17 6f9c", MemberBeat("6f9c", 17)),
    ],
)
def test_each_kind_of_news_is_understood(payload: str, news: News) -> None:
    assert news_of(payload) == news


@pytest.mark.parametrize(
    "payload", ["", "appended", "appended x", "appended -1", "shown 1 2", "hid 3", "beat x y", "gone", "changed 1"]
)
def test_what_is_not_ours_is_not_news(payload: str) -> None:
    assert news_of(payload) is None
