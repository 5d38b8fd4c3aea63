"""How each kind of thing is shown in a table."""

from duenotice.cli.output import Column, View

EVENTS = View(
    "id",
    (
        Column("EVENT", "id", "id"),
        Column("TYPE", "type"),
        Column("STATE", "phase", "state"),
        Column("NOT BEFORE", "", "not-before"),
        Column("LASTS", "duration", "span", spare=True),
        Column("VMS", "resources", "list"),
        Column("CAUSE", "cause", spare=True),
    ),
    "No events.",
    (
        Column("ID", "id"),
        Column("SCOPE", "scope"),
        Column("UPDATE DOMAIN", "update_domain"),
        Column("SOURCE", "source"),
        Column("STARTED", "started_at", "when"),
        Column("ENDS", "ends_at", "when"),
        Column("APPROVED BY", "approved_by"),
        Column("DESCRIPTION", "description", "prose"),
    ),
)
WATCHED_EVENTS = EVENTS._replace(
    columns=(
        Column("EVENT", "id", "id"),
        Column("TYPE", "type"),
        Column("STATE", "phase", "state"),
        Column("", "bar", "as-is"),
        Column("", "countdown"),
        Column("VMS", "resources", "list"),
        Column("CAUSE", "cause", spare=True),
    ),
)
VMS = View(
    "name",
    (
        Column("VM", "name", "name"),
        Column("STATE", "state", "state"),
        Column("GROUP", "group"),
        Column("UD", "update_domain"),
        Column("HOST", "host"),
        Column("ADDRESS", "address", spare=True),
        Column("LISTENS", "listens"),
    ),
    "No VMs.",
    (
        Column("SCOPE", "scope"),
        Column("FAULT DOMAIN", "fault_domain"),
        Column("ZONE", "zone"),
        Column("SPOT", "spot"),
        Column("SIZE", "size"),
        Column("OS", "os"),
        Column("TAGS", "tags", "pairs"),
    ),
)
HOSTS = View(
    "name",
    (Column("HOST", "name", "name"), Column("CONDITION", "condition", "state"), Column("VMS", "vms")),
    "No hosts.",
)
SCALE_SETS = View(
    "name",
    (
        Column("SCALE SET", "name", "name"),
        Column("VMS", "vms"),
        Column("UPDATE DOMAINS", "update_domains"),
        Column("FAULT DOMAINS", "fault_domains", spare=True),
        Column("TERMINATE NOTICE", "terminate_notice", "span"),
    ),
    "No scale sets.",
)
MAINTENANCES = View(
    "id",
    (
        Column("MAINTENANCE", "id", "id"),
        Column("TYPE", "type"),
        Column("STATE", "status", "state"),
        Column("STEPS", "progress", "progress"),
        Column("SETTLE", "settle", "span"),
        Column("REASON", "reason", "prose"),
    ),
    "No maintenances.",
    (
        Column("ID", "id"),
        Column("CAUSE", "cause"),
        Column("AT ONCE", "at_once"),
        Column("FAILURES ALLOWED", "failures_allowed"),
        Column("PROGRESS", "progress", "pairs"),
        Column("DESCRIPTION", "description", "prose"),
    ),
)
STEPS = View(
    "event_id",
    (
        Column("STATE", "status", "state"),
        Column("LANE", "lane"),
        Column("UD", "turn"),
        Column("HOST", "host"),
        Column("EVENT", "event_id", "id"),
        Column("VMS", "resources", "list"),
        Column("REASON", "reason", "prose"),
    ),
    "No steps.",
)
WATCHED_STEPS = STEPS._replace(
    columns=(
        Column("UD", "turn"),
        Column("STATE", "status", "state"),
        Column("", "bar", "as-is"),
        Column("", "countdown"),
        Column("HOST", "host", spare=True),
        Column("VMS", "resources", "list"),
        Column("", "reason", "prose"),
    ),
)
TIMELINE = View(
    "scope",
    (
        Column("LANE", "lane"),
        Column("UD", "turn"),
        Column("HOST", "host", spare=True),
        Column("TOLD", "scheduled_at", "when"),
        Column("STARTS", "starts_at", "when"),
        Column("ENDS", "ends_at", "when"),
        Column("VMS", "resources", "list"),
    ),
    "Nothing would happen.",
)
CLOCK = View("now", (Column("CLOCK", "clock", "name"), Column("NOW", "now"), Column("SPEED", "speed")))
CHANGES = View("vm", (Column("CHANGE", "change", "state"), Column("VM", "vm", "name")), "No VM changes.")
AUDIT = View(
    "position",
    (
        Column("#", "position"),
        Column("WHEN", "at", "when"),
        Column("ACTOR", "actor"),
        Column("ACTION", "action"),
        Column("EVENT", "event_id", "id"),
        Column("DETAILS", "details", "gist"),
    ),
    "No records.",
)
TOKENS = View(
    "id",
    (
        Column("TOKEN", "id", "id"),
        Column("NAME", "name", "name"),
        Column("ROLE", "role", "state"),
        Column("CREATED", "created_at", "when"),
    ),
    "No tokens.",
)
FLEET = View(
    "digest",
    (
        Column("VMS", "vms"),
        Column("GROUPS", "groups"),
        Column("HOSTS", "hosts"),
        Column("EVENTS", "events"),
        Column("DIGEST", "digest"),
        Column("SITE", "site", "pairs"),
    ),
    more=(Column("PROBLEM", "problem", "prose"),),
)
SCENARIOS = View("name", (Column("SCENARIO", "name", "name"), Column("WHAT", "title"), Column("TRAP", "trap", "prose")))
VERDICTS = View(
    "name",
    (
        Column("SCENARIO", "name", "name"),
        Column("OUTCOME", "outcome", "state"),
        Column("STEPS", "passed"),
        Column("TOOK", "took", "span"),
        Column("PROBLEM", "problem", "prose"),
    ),
)
