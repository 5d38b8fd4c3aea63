"""S5 with the real server and the real signal; `make soak-tests` looks longer."""

from tests.crash.loop import run
from tests.support.seed import SEED

ROUNDS = 8


def test_nothing_answered_is_lost_when_the_server_is_killed() -> None:
    """No acknowledged write is lost and no incarnation goes back; what got no answer happened once at the most."""
    loop = run(ROUNDS, SEED, print)
    answers = loop.ledger.answers
    assert min(answers["raised"], answers["approved"], answers["cancelled"]) > ROUNDS, f"hardly any load: {answers}"
