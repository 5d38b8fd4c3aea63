"""The rules that a client is judged by: each with an id, a severity, a sentence and how to fix it."""

from collections.abc import Callable
from typing import NamedTuple

from duenotice.testkit.verdicts import checks
from duenotice.testkit.verdicts.checks import Said, handles
from duenotice.testkit.verdicts.evidence import Evidence

ERROR, WARNING = "error", "warning"


class Rule(NamedTuple):
    """One rule. An error means lost notice or harm to others; a warning is about good behaviour."""

    id: str
    severity: str
    sentence: str
    fix: str
    check: Callable[[Evidence], Said]


RULES = (
    Rule(
        "asks",
        ERROR,
        "Asks for its document.",
        "Check that this is the right program, that it runs, and that it asks 169.254.169.254.",
        checks.asks,
    ),
    Rule(
        "header",
        ERROR,
        "Sends Metadata: true with every request.",
        "Add the header to GET and to POST: without it the real service answers 400.",
        checks.header,
    ),
    Rule(
        "pace",
        ERROR,
        "Asks more often than every 30 seconds.",
        "Poll once a second, also while you get ready: a spot VM has 30 seconds from the first sight of an event.",
        checks.pace,
    ),
    Rule(
        "crowding",
        WARNING,
        "Asks no more than 5 times a second.",
        "Wait a second between polls: the real service answers 429 to more.",
        checks.crowding,
    ),
    Rule(
        "version",
        WARNING,
        "Asks for an api-version that exists and shows every type of event.",
        "Use 2020-07-01, or 2019-01-01 at least: versions before 2017-11-01 never show Preempt.",
        checks.version,
    ),
    Rule(
        "neighbour",
        ERROR,
        "Neither approves nor ends because of an event that does not hit its own VM.",
        "Look for your own name in Resources: a document shows the events of the whole set.",
        checks.neighbour,
    ),
    Rule(
        "leader",
        WARNING,
        "Leaves an event of several VMs to the first of them.",
        "Let the first VM in Resources approve, once all are ready: an approval holds for all of them.",
        checks.leader,
    ),
    Rule(
        "peers",
        ERROR,
        "Approves an event of several VMs only once the others are ready.",
        "Ask the others before you approve for them.",
        checks.peers,
    ),
    Rule(
        "work",
        ERROR,
        "Approves an event only once its own work for it is done.",
        "Approve after the work has succeeded; after failed work let the notice run out.",
        checks.work,
    ),
    Rule(
        "once",
        WARNING,
        "Approves an event once.",
        "Remember which events you have approved: a second approval does no harm, but shows that the client forgot.",
        checks.once,
    ),
    Rule(
        "understood",
        ERROR,
        "Approves in a form that the service understands.",
        'POST {"StartRequests":[{"EventId":"…"}]} with an id of the document.',
        checks.understood,
    ),
    Rule(
        "started",
        WARNING,
        "Does not approve what it has read to be Started.",
        "Approve only events whose EventStatus is Scheduled.",
        checks.started,
    ),
    Rule(
        "cancelled",
        WARNING,
        "Does not approve what was cancelled.",
        "Read the document again before you approve: the event may be gone.",
        checks.cancelled,
    ),
    Rule(
        "every-event",
        ERROR,
        "Handles every event of a document, not only the first.",
        "Go through all of Events.",
        checks.every_event,
    ),
    Rule(
        "empty-not-before",
        ERROR,
        "Survives an event that has started: its NotBefore is empty.",
        'Read NotBefore only while EventStatus is Scheduled: then it is "".',
        handles("empty-not-before"),
    ),
    Rule(
        "errors",
        ERROR,
        "Asks again after errors, and handles what was announced meanwhile.",
        "Retry within seconds: an error is not an empty list, and notice may be 30 seconds.",
        handles("errors"),
    ),
    Rule(
        "empty-answer",
        ERROR,
        "Asks again after an empty answer, and handles what was announced meanwhile.",
        "An answer without a document says nothing: ask again.",
        handles("empty-answer"),
    ),
    Rule(
        "cut-answer",
        ERROR,
        "Asks again after a dropped connection or half an answer.",
        "Catch errors of the connection, check that the body is whole, and ask again.",
        handles("cut-answer"),
    ),
    Rule(
        "late-answer",
        ERROR,
        "Asks again when an answer is late: the first may take two minutes.",
        "Give every request a timeout, catch it, and ask again.",
        handles("late-answer"),
    ),
    Rule(
        "incarnation",
        ERROR,
        "Goes on when incarnations skip numbers.",
        "Compare the incarnation with the last one. Do not expect the next number.",
        handles("incarnation"),
    ),
    Rule(
        "comes-back",
        ERROR,
        "Comes back after an event of its own is over or cancelled, ready for the next.",
        "Keep polling after the event, and return to service.",
        checks.comes_back,
    ),
    Rule(
        "alive",
        ERROR,
        "Does not end by itself.",
        "Catch all errors: an agent that has ended protects nobody.",
        checks.alive,
    ),
    Rule(
        "tour",
        ERROR,
        "Stays for the whole tour, so that every rule that applies is tried.",
        "Fix the other rules first. Or accept what was not tried with --allow-untried.",
        checks.whole_tour,
    ),
)
BY_ID = {rule.id: rule for rule in RULES}
