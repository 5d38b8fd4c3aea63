"""What the description says about parameters: one row for each name."""

from typing import Any

from duenotice.domain.event import Phase
from duenotice.domain.fleet import GroupKind
from duenotice.domain.maintenance import Status
from duenotice.operator_api import idempotency
from duenotice.operator_api.pages import DEFAULT_LIMIT, MOST
from duenotice.operator_api.table import Parameter
from duenotice.wire.api_versions import API_VERSIONS
from duenotice.wire.event_names import TYPE_NAMES
from duenotice.wire.fleet_toml import NAME
from duenotice.wire.record_json import ACTIONS

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
LAST = 2**53
"""No journal gets so far, and every JSON library can represent it."""

POSITION: Schema = {"type": "integer", "minimum": 0, "maximum": LAST}

CURSOR: Schema = {"type": "string", "pattern": "^[0-9]{0,15}$"}
"""A cursor that is a position."""

MOMENT: Schema = {"type": "string", "format": "date-time"}

QUERY: dict[str, Schema] = {
    "limit": {"type": "integer", "minimum": 1, "maximum": MOST, "default": DEFAULT_LIMIT},
    "after": POSITION,
    "before": POSITION,
    "action": {"type": "string", "enum": ["", *ACTIONS]},
    "event": {"type": "string", "pattern": "^[0-9A-Fa-f-]{0,36}$"},
    "from": MOMENT,
    "to": MOMENT,
    "status": {"type": "string", "enum": [status.value for status in Status]},
    "dry_run": {"type": "boolean", "default": False},
    "verbose": TEXT,
    "type": {"type": "string", "enum": list(TYPE_NAMES.values())},
    "phase": {"type": "string", "enum": [Phase.SCHEDULED.value, Phase.STARTED.value]},
    "api-version": {
        "type": "string",
        "enum": [version.name for version in API_VERSIONS],
        "default": API_VERSIONS[-1].name,
    },
}

PATH: dict[str, Schema] = {
    "name": {"type": "string", "pattern": f"^{NAME.pattern}$"},
    "id": {"type": "string", "pattern": "^[0-9A-Fa-f-]{1,36}$"},
    "kind": {"type": "string", "enum": [kind.value for kind in GroupKind]},
}

ABOUT = {
    "limit": "How many at most",
    "cursor": "`next` of the page before",
    "after": "Only what came after this position of the journal",
    "dry_run": "Only say what would happen",
    "verbose": "Show each check on a line; any value is fine",
    "group": "A group by key or name: `set/web` or `web`",
    "host": "Those on a host",
    "q": "Those with this in their name, group, host, address or zone",
    "state": "Those in one of these states: `scheduled,started`",
    "from": "Leave out what was over by then",
    "to": "Leave out what comes after that",
    "before": "Only what came before this position of the journal; newest first",
    "event": "Those of one event, by the beginning of its id",
    "status": "Those in one status, such as `running`",
    "vm": "Those that hit this VM",
    "scope": "Those that this scope is told of",
    "actor": "Those of one actor: `token/NAME`",
    "action": "Those of one action: `event-raised`",
    "api-version": "As VMs ask for it",
    "name": "A name as in the fleet file",
    "id": "An id, or the beginning of one that no other has",
}

KEY: Schema = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "A request with the same key is done once and gets the same answer",
    "schema": {"type": "string", "pattern": f"^{idempotency.KEY.pattern}$"},
}


def in_query(asked: str | Parameter) -> Schema:
    """A parameter of the query."""
    name, schema = asked if isinstance(asked, Parameter) else (asked, QUERY.get(asked, TEXT))
    return _described(name, {"name": name, "in": "query", "schema": schema})


def in_path(name: str) -> Schema:
    """A part of the path."""
    return _described(name, {"name": name, "in": "path", "required": True, "schema": PATH.get(name, TEXT)})


def _described(name: str, parameter: Schema) -> Schema:
    return parameter | ({"description": ABOUT[name]} if name in ABOUT else {})
