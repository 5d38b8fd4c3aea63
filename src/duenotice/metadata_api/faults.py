"""Wrong answers for single VMs, on purpose and for a while, so that clients can be seen to cope (H06).

While there is none, the door does not know of faults: setting the first takes the place of its answers.
"""

from typing import NamedTuple

from duenotice.errors import Malformed
from duenotice.metadata_api.answers import DROPPED, THROTTLED, Answering, Dropped, Later, Outcome
from duenotice.metadata_api.door import Door
from duenotice.metadata_api.questions import Poll, Question
from duenotice.metadata_api.responses import EMPTY_OK, Answer, error

_ASKED_FOR = "The operator asked for this fault. Try again."
FAULTS: dict[str, Answer | Dropped] = {
    "404": error(404, _ASKED_FOR),
    "410": error(410, _ASKED_FOR),
    "429": THROTTLED,
    "500": error(500, _ASKED_FOR),
    "empty": EMPTY_OK,
    "drop": DROPPED,
}
"""What a fault answers; `drop` closes the connection without a word."""


class _Fault(NamedTuple):
    outcome: Answer | Dropped
    until: float


class Faults:
    """The faults there are, by VM; kept in memory only, ending by themselves on the service's clock."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._right: Answering = door.answers
        self._by_vm: dict[str, _Fault] = {}

    def put(self, vm: str, answer: str, seconds: float) -> None:
        """Answer all requests of a VM like this for so long; another fault takes the place of the last."""
        if answer not in FAULTS:
            raise Malformed(f"{answer[:40]!r} is no fault.", hint=f"Use one of {', '.join(FAULTS)}.")
        self._by_vm[vm] = _Fault(FAULTS[answer], self._now() + seconds)
        # With no lane in sight every request takes the long way, which leads here.
        self._door.answers, self._door.lanes = self, {}

    def lift(self, vm: str) -> None:
        """Answer a VM rightly again."""
        self._by_vm.pop(vm, None)
        if not self._by_vm:
            self._door.answers, self._door.lanes = self._right, self._door.callers.lanes

    def answer(self, address: str, question: Question, body: bytes) -> Outcome | Later | Dropped:
        """In place of the right answers: the fault of whoever asks, or what is right."""
        self._lift_what_is_over()
        lane = self._door.callers.find(address)
        fault = None if lane is None else self._by_vm.get(lane.vm.name)
        return self._right.answer(address, question, body) if fault is None else fault.outcome

    def again(self, address: str, poll: Poll) -> Answer:
        """A poll that was held before the fault came is answered rightly."""
        return self._right.again(address, poll)

    def _lift_what_is_over(self) -> None:
        """Of all VMs: one that never asks again must not keep the others on the long way."""
        now = self._now()
        for vm in [vm for vm, fault in self._by_vm.items() if fault.until <= now]:
            self.lift(vm)

    def _now(self) -> float:
        return self._door.pulse.clock.now().steady
