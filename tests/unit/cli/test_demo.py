"""What the demo tells a newcomer."""

from typing import Any

import pytest

from duenotice.cli.demo import sentence
from duenotice.wire.operator import Event
from tests.unit.cli.values import event, record

EVENT = event()


@pytest.mark.parametrize(
    ("action", "details", "about", "said"),
    [
        ("event-raised", {}, EVENT, "web-0: told of a Reboot"),
        ("event-approved", {"by": "vm/web-0"}, EVENT, "web-0: approved by vm/web-0"),
        ("event-completed", {}, EVENT, "web-0: Reboot is over"),
        ("event-completed", {}, None, ""),
        ("vms-removed", {"names": ("batch_3",)}, None, "batch_3: gone"),
        ("vms-put", {"names": tuple(f"vm-{n}" for n in range(60))}, None, ""),
        ("maintenance-changed", {"status": "done"}, None, "maintenance is done"),
        ("scope-enabled", {}, None, ""),
    ],
)
def test_the_demo_tells_what_happens_in_plain_words(
    action: str, details: dict[str, Any], about: Event | None, said: str
) -> None:
    assert sentence(record(action, **details), about) == said
