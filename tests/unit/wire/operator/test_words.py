"""What a client finds in the operator's contract: every word that a field can have, at little cost."""

import subprocess
import sys
from typing import Any, get_args

import msgspec
import pytest

from duenotice.domain import records as t
from duenotice.domain.event import Cause, Phase
from duenotice.domain.fleet import Condition, GroupKind
from duenotice.domain.plan import Status, StepStatus
from duenotice.domain.token import Role
from duenotice.wire import operator as o
from duenotice.wire.api_versions import SOURCE_NAMES, TYPE_NAMES


def words_of(struct: type[msgspec.Struct], field: str) -> tuple[str, ...]:
    """The words that the description of a struct gives for a field."""
    _, components = msgspec.json.schema_components([struct], ref_template="{name}")
    described: Any = components[struct.__name__]["properties"][field]
    return tuple(described["enum"] if "enum" in described else described["anyOf"][0]["enum"])


@pytest.mark.parametrize(
    ("struct", "field", "words"),
    [
        (o.Event, "type", o.EVENT_TYPES),
        (o.Event, "phase", o.PHASES),
        (o.Event, "cause", o.CAUSES),
        (o.Event, "source", o.SOURCES),
        (o.Life, "outcome", o.OUTCOMES),
        (o.ScheduleRequest, "type", o.EVENT_TYPES),
        (o.ScheduleRequest, "cause", o.CAUSES_TO_GIVE),
        (o.Vm, "state", o.STATES),
        (o.Group, "kind", o.GROUP_KINDS),
        (o.Host, "condition", o.CONDITIONS),
        (o.DegradeRequest, "risk", tuple(o.RISKS)),
        (o.Maintenance, "status", o.MAINTENANCE_STATUSES),
        (o.Step, "status", o.STEP_STATUSES),
        (o.Token, "role", o.ROLES),
        (o.TokenRequest, "role", o.ROLES),
        (o.Record, "action", o.ACTIONS),
    ],
)
def test_a_field_has_the_words_that_clients_offer(
    struct: type[msgspec.Struct], field: str, words: tuple[str, ...]
) -> None:
    assert words_of(struct, field) == words


def test_the_words_are_all_that_the_domain_knows() -> None:
    """Made from the domain's own lists, so that a new one is never forgotten."""
    known = {
        o.EVENT_TYPES: TYPE_NAMES.values(),
        o.SOURCES: SOURCE_NAMES.values(),
        o.PHASES: [phase.value for phase in Phase],
        o.CAUSES: [cause.value for cause in Cause],
        o.GROUP_KINDS: [kind.value for kind in GroupKind],
        o.CONDITIONS: [condition.value for condition in Condition],
        o.MAINTENANCE_STATUSES: [status.value for status in Status],
        o.STEP_STATUSES: [status.value for status in StepStatus],
        o.ROLES: [role.value for role in Role],
        o.ACTIONS: [kind.__struct_config__.tag for kind in get_args(t.Transition)],
    }
    for words, values in known.items():
        assert list(words) == list(values)
    assert set(o.ACTIONS) > o.QUIET_ACTIONS
    assert set(o.CAUSES) > set(o.CAUSES_TO_GIVE)


def test_each_public_name_is_there() -> None:
    for name in o.__all__:
        assert getattr(o, name) is not None


def test_a_client_of_an_older_duenotice_can_read_new_words_and_fields() -> None:
    """Words are described, not enforced, and keys may be added."""
    host = msgspec.json.decode(b'{"name":"h","condition":"on-fire","vms":1,"rack":"7"}', type=o.Host)
    assert host == o.Host("h", "on-fire", 1)


def test_a_request_says_only_what_is_not_as_usual() -> None:
    request = o.MaintenanceRequest(("set=web",), "Reboot", at_once=2)
    assert msgspec.json.encode(request) == b'{"on":["set=web"],"type":"Reboot","at_once":2}'


LOADED = """
import sys
import duenotice.wire.operator
print(sorted(name for name in sys.modules if name.startswith(("duenotice.", "starlette", "asyncio", "email"))))
"""


def test_who_only_reads_answers_loads_values_and_no_rules() -> None:
    """In a fresh interpreter: the command line is to start at once."""
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True, timeout=60)
    loaded = set(done.stdout.strip("[]\n").replace("'", "").split(", "))
    values = {"bulk", "event", "fleet", "plan", "records", "subscription", "token", "window"}
    ours = {
        "clock",
        "errors",
        "domain",
        *(f"domain.{name}" for name in values),
        "wire",
        "wire.api_versions",
    }
    contract = {
        "events",
        "fleet",
        "maintenances",
        "records",
        "service",
        "subscriptions",
        "tables",
        "words",
    }
    ours |= {"wire.operator", *(f"wire.operator.{name}" for name in contract)}
    assert loaded == {f"duenotice.{name}" for name in ours}
