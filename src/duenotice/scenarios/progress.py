"""What a play reports on its way, as values: a terminal, a page or a test shows them in its own way."""

from datetime import datetime

from msgspec import Struct

PASSED, FAILED, REFUSED = "passed", "failed", "refused"


class Cast(Struct, frozen=True):
    """Every role has somebody."""

    clock: str
    names: dict[str, str]
    at: datetime


class Begun(Struct, frozen=True):
    """A step begins."""

    step: int
    text: str
    note: str
    at: datetime


class Waiting(Struct, frozen=True):
    """A step waits, at the longest until then."""

    step: int
    at: datetime
    until: datetime


class Ended(Struct, frozen=True):
    """A step is over; `seen` is its result, or what was there instead."""

    step: int
    text: str
    ok: bool
    seen: str
    at: datetime


class PlayVerdict(Struct, frozen=True):
    """How it ended. `problem` and `hint` say why it did not pass, `left` what was raised and is still there."""

    name: str
    outcome: str
    cast: dict[str, str]
    clock: str
    began: datetime
    ended: datetime
    steps: tuple[Ended, ...]
    problem: str = ""
    hint: str = ""
    left: tuple[str, ...] = ()


Progress = Cast | Begun | Waiting | Ended | PlayVerdict
