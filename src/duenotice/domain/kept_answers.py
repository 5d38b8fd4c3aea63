"""Which requests of operators were answered, by the key of each: a request that comes again is not done again (S6)."""

from collections import OrderedDict
from datetime import datetime, timedelta

from msgspec import Struct

from duenotice.clock import Instant, micros_of

KEPT = timedelta(hours=24)
MOST_KEPT = 10_000
"""So that state stays bounded (S24); the oldest is forgotten first."""


class KeptAnswer(Struct, frozen=True, gc=False):
    """Where in the journal the answer to a request is; `fingerprint` tells it from another with the same key.

    It is kept until a steady time: somebody may set the clock between two tries. An older duenotice did not write that
    down; then it is 0, and the time of day counts.
    """

    key: str
    fingerprint: str
    position: int
    until: datetime
    until_steady: int = 0


AnswersByKey = OrderedDict[str, KeptAnswer]
"""The oldest first."""


def keep(answers: AnswersByKey, answer: KeptAnswer) -> None:
    """Remember one more, and forget what is too old by then or too much."""
    answers[answer.key] = answer
    answers.move_to_end(answer.key)  # its key may have been used before, and have run out
    given = Instant(answer.until - KEPT, answer.until_steady - micros_of(KEPT))
    while len(answers) > MOST_KEPT or _is_over(next(iter(answers.values())), given):
        answers.popitem(last=False)


def kept_answer(answers: AnswersByKey, key: str, now: Instant) -> KeptAnswer | None:
    """The answer to the request with this key, if it was answered and that is not too long ago."""
    known = answers.get(key)
    return known if known is not None and not _is_over(known, now) else None


def _is_over(answer: KeptAnswer, now: Instant) -> bool:
    return answer.until_steady <= now.steady if answer.until_steady else answer.until <= now.at
