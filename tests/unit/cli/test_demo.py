"""What the demo tells a newcomer."""

from typing import Any

import pytest

from duenotice.cli.demo import sentence

EVENT = {"type": "Reboot", "resources": ["web-0"]}


@pytest.mark.parametrize(
    ("action", "details", "event", "said"),
    [
        ("event-raised", {}, EVENT, "web-0: told of a Reboot"),
        ("event-approved", {"by": "vm/web-0"}, EVENT, "web-0: approved by vm/web-0"),
        ("event-completed", {}, EVENT, "web-0: Reboot is over"),
        ("event-completed", {}, None, ""),
        ("vms-removed", {"names": ["batch_3"]}, None, "batch_3: gone"),
        ("vms-put", {"names": [f"vm-{n}" for n in range(60)]}, None, ""),
        ("maintenance-changed", {"status": "done"}, None, "maintenance is done"),
        ("scope-enabled", {}, None, ""),
    ],
)
def test_the_demo_tells_what_happens_in_plain_words(action: str, details: Any, event: Any, said: str) -> None:
    assert sentence({"action": action, "details": details, "event_id": None}, event) == said
