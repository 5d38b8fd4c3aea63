"""Which requests of operators were answered, by the key of each: a request that comes again is not done again (S6)."""

from collections import OrderedDict
from datetime import datetime, timedelta

from msgspec import Struct

KEPT = timedelta(hours=24)
MOST_KEPT = 10_000
"""So that state stays bounded (S24); the oldest is forgotten first."""


class KeptAnswer(Struct, frozen=True, gc=False):
    """Where in the journal the answer to a request is; `fingerprint` tells it from another with the same key."""

    key: str
    fingerprint: str
    position: int
    until: datetime


AnswersByKey = OrderedDict[str, KeptAnswer]
"""The oldest first."""


def keep(answers: AnswersByKey, answer: KeptAnswer) -> None:
    """Remember one more, and forget what is too old by then or too much."""
    answers[answer.key] = answer
    while len(answers) > MOST_KEPT or next(iter(answers.values())).until + KEPT <= answer.until:
        answers.popitem(last=False)


def kept_answer(answers: AnswersByKey, key: str, at: datetime) -> KeptAnswer | None:
    """The answer to the request with this key, if it was answered and that is not too long ago."""
    known = answers.get(key)
    return known if known is not None and known.until > at else None
