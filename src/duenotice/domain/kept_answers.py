"""Which requests of operators were answered, by the key of each: a request that comes again is not done again (S6)."""

from collections import OrderedDict
from datetime import datetime, timedelta

from msgspec import Struct

from duenotice.clock import Instant

KEPT = timedelta(hours=24)
MOST_KEPT = 10_000
"""So that state stays bounded (S24); the oldest is forgotten first."""


class KeptAnswer(Struct, frozen=True, gc=False):
    """Where in the journal the answer to a request is; `fingerprint` tells it from another with the same key.

    It is kept until both faces of time say so: somebody may set the clock between two tries (S34). An older duenotice
    did not write down the steady time; then it is 0, and the time of day counts.
    """

    key: str
    fingerprint: str
    position: int
    until: datetime
    until_steady: int = 0

    def is_over(self, now: Instant) -> bool:
        """Whether it was too long ago."""
        return Instant(self.until, self.until_steady).has_come(now)


AnswersByKey = OrderedDict[str, KeptAnswer]
"""The oldest first."""


def keep(answers: AnswersByKey, answer: KeptAnswer, now: Instant) -> None:
    """Remember one more that is given now, and forget what is too old or too much."""
    answers[answer.key] = answer
    answers.move_to_end(answer.key)  # its key may have been used before, and have run out
    while len(answers) > MOST_KEPT or next(iter(answers.values())).is_over(now):
        answers.popitem(last=False)


def kept_answer(answers: AnswersByKey, key: str, now: Instant) -> KeptAnswer | None:
    """The answer to the request with this key, if it was answered and that is not too long ago."""
    known = answers.get(key)
    return known if known is not None and not known.is_over(now) else None
