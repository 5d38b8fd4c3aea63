"""The past in numbers in the operator's contract: each day, and each event of it."""

from duenotice.wire.operator.words import AnswerBody, Count, Moment, Seconds, TypeName


class PastDay(AnswerBody, frozen=True):
    """One day in UTC, by when its events were told; spans are medians in seconds, null where there are none.

    `whole` events were given all of the notice that was promised, `cut` ones less, because somebody approved, and
    `silent` ones none, because nobody listened.
    """

    day: str
    types: dict[str, int]
    outcomes: dict[str, int]
    promised: Seconds | None
    given: Seconds | None
    to_approval: Seconds | None
    impact: Seconds | None
    impact_in_all: Seconds
    whole: Count
    cut: Count
    silent: Count


class PastLife(AnswerBody, frozen=True):
    """One event; `promised` and `given` are seconds of notice, `impact` is how long it lasted."""

    id: str
    type: TypeName
    scope: str
    resources: tuple[str, ...]
    raised_at: Moment | None
    approved_at: Moment | None
    approved_by: str
    started_at: Moment | None
    ended_at: Moment | None
    outcome: str
    promised: Seconds | None
    given: Seconds | None
    to_approval: Seconds | None
    impact: Seconds | None


class History(AnswerBody, frozen=True):
    """Days from the first that was asked for on, and their events, oldest first.

    `complete_since` is null when the whole past is known; `left_out` are older events that are only in the numbers.
    """

    days: tuple[PastDay, ...]
    events: tuple[PastLife, ...]
    left_out: Count
    complete_since: Moment | None
