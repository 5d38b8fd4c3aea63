"""How each kind of thing is shown in a table."""

from duenotice.cli.output import TableColumn, TableView

EVENTS = TableView(
    "id",
    (
        TableColumn("EVENT", "id", "id"),
        TableColumn("TYPE", "type"),
        TableColumn("STATE", "", "event-state"),
        TableColumn("NOT BEFORE", "", "not-before"),
        TableColumn("LASTS", "duration", "span", spare=True),
        TableColumn("VMS", "resources", "list"),
        TableColumn("CAUSE", "cause", spare=True),
    ),
    "No events.",
    (
        TableColumn("ID", "id"),
        TableColumn("SCOPE", "scope"),
        TableColumn("UPDATE DOMAIN", "update_domain"),
        TableColumn("SOURCE", "source"),
        TableColumn("STARTED", "started_at", "when"),
        TableColumn("ENDS", "", "ends"),
        TableColumn("APPROVED BY", "approved_by"),
        TableColumn("CONSENT OF", "consent"),
        TableColumn("AWAITED", "awaited", "list"),
        TableColumn("AWAITED IN ALL", "awaited_in_all"),
        TableColumn("DESCRIPTION", "description", "prose"),
    ),
)
OVER_EVENTS = EVENTS._replace(
    columns=(
        TableColumn("EVENT", "id", "id"),
        TableColumn("TYPE", "type"),
        TableColumn("STATE", "", "event-state"),
        TableColumn("ENDED", "ended_at", "when"),
        TableColumn("VMS", "resources", "list"),
        TableColumn("CAUSE", "cause", spare=True),
        TableColumn("REASON", "reason", "prose"),
    ),
)
"""Events that may be over."""
EVENT = EVENTS._replace(
    more=(*EVENTS.more, TableColumn("ENDED", "ended_at", "when"), TableColumn("REASON", "reason", "prose")),
)
"""One event, which may be over."""
WATCHED_EVENTS = EVENTS._replace(
    columns=(
        TableColumn("EVENT", "id", "id"),
        TableColumn("TYPE", "type"),
        TableColumn("STATE", "phase", "state"),
        TableColumn("", "bar", "as-is"),
        TableColumn("", "countdown"),
        TableColumn("VMS", "resources", "list"),
        TableColumn("CAUSE", "cause", spare=True),
    ),
)
VMS = TableView(
    "name",
    (
        TableColumn("VM", "name", "name"),
        TableColumn("STATE", "state", "state"),
        TableColumn("GROUP", "group"),
        TableColumn("UD", "update_domain"),
        TableColumn("HOST", "host"),
        TableColumn("ADDRESS", "address", spare=True),
        TableColumn("LISTENS", "listens"),
    ),
    "No VMs.",
    (
        TableColumn("SCOPE", "scope"),
        TableColumn("FAULT DOMAIN", "fault_domain"),
        TableColumn("ZONE", "zone"),
        TableColumn("SPOT", "spot"),
        TableColumn("SIZE", "size"),
        TableColumn("OS", "os"),
        TableColumn("TAGS", "tags", "pairs"),
        TableColumn("POLICY", "policy", "pairs"),
        TableColumn("FAILED", "failure.failed_at", "when"),
        TableColumn("REASON", "failure.reason", "prose"),
    ),
)
FAILED_VMS = VMS._replace(
    columns=(
        TableColumn("VM", "name", "name"),
        TableColumn("STATE", "state", "state"),
        TableColumn("SINCE", "failure.failed_at", "when"),
        TableColumn("TYPE", "failure.type"),
        TableColumn("EVENT", "failure.event_id", "id"),
        TableColumn("GROUP", "group", spare=True),
        TableColumn("REASON", "failure.reason", "prose"),
    ),
)
"""VMs on which something has failed."""
HOSTS = TableView(
    "name",
    (
        TableColumn("HOST", "name", "name"),
        TableColumn("CONDITION", "condition", "state"),
        TableColumn("VMS", "vms"),
        TableColumn("AWAY", "away"),
        TableColumn("REPORTED", "reported", "list"),
    ),
    "No hosts.",
)
SCALE_SETS = TableView(
    "name",
    (
        TableColumn("SCALE SET", "name", "name"),
        TableColumn("VMS", "vms"),
        TableColumn("UPDATE DOMAINS", "update_domains"),
        TableColumn("FAULT DOMAINS", "fault_domains", spare=True),
        TableColumn("TERMINATE NOTICE", "terminate_notice", "span"),
    ),
    "No scale sets.",
    (TableColumn("OS IMAGE NOTICE", "os_image_notice"), TableColumn("POLICY", "policy", "pairs")),
)
POLICIES = TableView(
    "of",
    (
        TableColumn("POLICY OF", "of", "name"),
        TableColumn("USER INITIATED REBOOT", "user_initiated_reboot"),
        TableColumn("USER INITIATED REDEPLOY", "user_initiated_redeploy"),
        TableColumn("ALL INSTANCES DOWN", "all_instances_down"),
        TableColumn("EVENT GRID AND RESOURCE GRAPH", "event_grid_and_resource_graph"),
        TableColumn("SCHEDULED EVENTS API VERSION", "scheduled_events_api_version"),
    ),
)
MAINTENANCES = TableView(
    "id",
    (
        TableColumn("MAINTENANCE", "id", "id"),
        TableColumn("TYPE", "type"),
        TableColumn("STATE", "status", "state"),
        TableColumn("STEPS", "progress", "progress"),
        TableColumn("SETTLE", "settle", "span"),
        TableColumn("REASON", "reason", "prose"),
    ),
    "No maintenances.",
    (
        TableColumn("ID", "id"),
        TableColumn("CAUSE", "cause"),
        TableColumn("AT ONCE", "at_once"),
        TableColumn("FAILURES ALLOWED", "failures_allowed"),
        TableColumn("PROGRESS", "progress", "pairs"),
        TableColumn("DESCRIPTION", "description", "prose"),
        TableColumn("TITLE", "title", "prose"),
        TableColumn("AUTHOR", "author"),
        TableColumn("ASKED FOR", "asked_at", "when"),
        TableColumn("OVER", "over_at", "when"),
        TableColumn("WINDOW", "window", "prose"),
        TableColumn("WAITS UNTIL", "waits_until", "when"),
        TableColumn("BY", "by"),
        TableColumn("CONSENT OF", "consent"),
        TableColumn("AWAITED", "awaited", "list"),
        TableColumn("AWAITED IN ALL", "awaited_in_all"),
    ),
)
STEPS = TableView(
    "event_id",
    (
        TableColumn("STATE", "status", "state"),
        TableColumn("GROUP", "group"),
        TableColumn("UD", "domain"),
        TableColumn("HOST", "host"),
        TableColumn("EVENT", "event_id", "id"),
        TableColumn("VMS", "resources", "list"),
        TableColumn("REASON", "reason", "prose"),
    ),
    "No steps.",
)
WATCHED_STEPS = STEPS._replace(
    columns=(
        TableColumn("UD", "domain"),
        TableColumn("STATE", "status", "state"),
        TableColumn("", "bar", "as-is"),
        TableColumn("", "countdown"),
        TableColumn("HOST", "host", spare=True),
        TableColumn("VMS", "resources", "list"),
        TableColumn("", "reason", "prose"),
    ),
)
TIMELINE = TableView(
    "scope",
    (
        TableColumn("GROUP", "group"),
        TableColumn("UD", "domain"),
        TableColumn("HOST", "host", spare=True),
        TableColumn("TOLD", "scheduled_at", "when"),
        TableColumn("STARTS", "starts_at", "when"),
        TableColumn("ENDS", "ends_at", "when"),
        TableColumn("REASON", "reason", "prose"),
        TableColumn("VMS", "resources", "list"),
    ),
    "Nothing would happen.",
)


def by_domain(view: TableView, by: str) -> TableView:
    """The steps of a maintenance that goes by update domain, or by fault domain: their turn has its name."""
    if by == "update-domain":
        return view
    columns = (column._replace(title="FD") if column.key == "domain" else column for column in view.columns)
    return view._replace(columns=tuple(columns))


CLOCK = TableView(
    "now", (TableColumn("CLOCK", "clock", "name"), TableColumn("NOW", "now"), TableColumn("SPEED", "speed"))
)
AZURE = TableView("resource_manager", (TableColumn("RESOURCE MANAGER", "resource_manager", "name"),))
CHANGES = TableView("vm", (TableColumn("CHANGE", "change", "state"), TableColumn("VM", "vm", "name")), "No VM changes.")
AUDIT = TableView(
    "position",
    (
        TableColumn("#", "position"),
        TableColumn("WHEN", "at", "when"),
        TableColumn("ACTOR", "actor"),
        TableColumn("ACTION", "action"),
        TableColumn("EVENT", "event_id", "id"),
        TableColumn("DETAILS", "details", "gist"),
    ),
    "No records.",
)
HITS = TableView(
    "name",
    (TableColumn("KIND", "kind"), TableColumn("NAME", "name", "name"), TableColumn("ABOUT", "about")),
    "Nothing was found.",
)
TOKENS = TableView(
    "id",
    (
        TableColumn("TOKEN", "id", "id"),
        TableColumn("NAME", "name", "name"),
        TableColumn("ROLE", "role", "state"),
        TableColumn("CREATED", "created_at", "when"),
    ),
    "No tokens.",
)
SUBSCRIPTIONS = TableView(
    "id",
    (
        TableColumn("SUBSCRIPTION", "id", "id"),
        TableColumn("STATE", "status", "state"),
        TableColumn("FORMAT", "format"),
        TableColumn("URL", "url", "name"),
        TableColumn("TO DELIVER", "pending"),
        TableColumn("DEAD LETTERS", "dead_letters"),
        TableColumn("TROUBLE", "trouble", "prose"),
    ),
    "No subscriptions.",
    (
        TableColumn("ID", "id"),
        TableColumn("REASON", "reason", "prose"),
        TableColumn("TYPES", "types", "list"),
        TableColumn("GROUPS", "groups", "list"),
        TableColumn("VMS", "vms", "list"),
        TableColumn("BEARER", "bearer"),
        TableColumn("CREATED", "created_at", "when"),
        TableColumn("DELIVERED TO", "position"),
        TableColumn("DROPPED", "dropped"),
    ),
)
SET_ASIDE = TableView(
    "position",
    (
        TableColumn("#", "position"),
        TableColumn("EVENT", "event_id", "id"),
        TableColumn("GIVEN UP", "at", "when"),
        TableColumn("REASON", "reason", "prose"),
    ),
    "There are no dead letters.",
)
FLEET = TableView(
    "digest",
    (
        TableColumn("VMS", "vms"),
        TableColumn("GROUPS", "groups"),
        TableColumn("HOSTS", "hosts"),
        TableColumn("EVENTS", "events"),
        TableColumn("DIGEST", "digest"),
        TableColumn("SITE", "site", "pairs"),
    ),
    more=(TableColumn("PROBLEM", "problem", "prose"),),
)
SCENARIOS = TableView(
    "name",
    (TableColumn("SCENARIO", "name", "name"), TableColumn("WHAT", "title"), TableColumn("TRAP", "trap", "prose")),
)
VERDICTS = TableView(
    "name",
    (
        TableColumn("SCENARIO", "name", "name"),
        TableColumn("OUTCOME", "outcome", "state"),
        TableColumn("STEPS", "passed"),
        TableColumn("TOOK", "took", "span"),
        TableColumn("PROBLEM", "problem", "prose"),
    ),
)
NODES = TableView(
    "name",
    (
        TableColumn("NODE", "name", "name"),
        TableColumn("STATE", "state", "state"),
        TableColumn("LAG", "lag"),
        TableColumn("LEASE LEFT", "lease_left", "seconds"),
        TableColumn("VERSION", "version"),
        TableColumn("ALIVE SINCE", "alive_since", "when"),
        TableColumn("URL", "url"),
    ),
    "No nodes.",
)
READERS = TableView(
    "name",
    (
        TableColumn("TOKEN", "name", "name"),
        TableColumn("KIND", "kind"),
        TableColumn("STATE", "state", "state"),
        TableColumn("HOST", "host"),
        TableColumn("ONLY", "only"),
        TableColumn("SILENT FOR", "silent_for", "seconds"),
    ),
    "No followers and no workers.",
)
