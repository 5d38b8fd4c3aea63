"""What followers are told of records: nothing by which one could pass for the service or for an operator."""

from duenotice.domain import records as t
from duenotice.domain.subscription import PushFormat, Subscription
from duenotice.domain.token import Role, Session, Token
from duenotice.operator_api.follow_stream import _written
from tests.unit.domain.build import NOW

SUBSCRIPTION = Subscription(
    "U-1", "https://r/?code=hidden", PushFormat.EVENTGRID, NOW.at, NOW.at, secret="secret-1", bearer="bearer-1"
)
TOKEN = Token("T-1", "ann", Role.VIEWER, "digest-1", NOW.at)


def test_followers_learn_no_secret() -> None:
    changes: list[t.Transition] = [t.SubscriptionCreated(SUBSCRIPTION), t.TokenCreated(TOKEN)]
    changes += [t.SessionBegun(Session("digest-2", "T-1", NOW.at, 0), "ann"), t.SessionEnded("digest-2", "ann")]
    told = _written([t.Record(7 + place, NOW.at, "test", change) for place, change in enumerate(changes)])
    assert b"U-1" in told and b"T-1" in told
    assert not any(secret in told for secret in (b"secret-1", b"bearer-1", b"hidden", b"digest-1", b"digest-2"))
