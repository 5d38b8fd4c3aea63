"""`agent check`: what is wrong with a configuration on this machine, and what it would do for each type of event.

With `--online` the service is asked for this VM's name, and whether its clock agrees with ours. It is asked for the
instance only: a poll would turn Scheduled Events on for the whole set (F01).
"""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, NamedTuple

from duenotice.agent.config import Config
from duenotice.agent.handlers.loading import problems
from duenotice.agent.handlers.trust import distrust
from duenotice.agent.planner import RESERVE, HandlerRule
from duenotice.agent.state import Events, unfinished
from duenotice.toml import near_miss
from duenotice.wire.seen_documents import ADVICE
from duenotice.wire.spans import span

SHORTEST_NOTICE = {"Freeze": 900, "Reboot": 900, "Redeploy": 600, "Preempt": 30, "Terminate": 300}
"""Seconds that each type of event gives at least (D01)."""
TYPES = (*SHORTEST_NOTICE, ADVICE)
SOURCES = ("Platform", "User")


def findings(config: Config, events: Events) -> list[str]:
    """What would fail when an event comes or goes: rules that never match, or that take longer than the notice, hooks
    that others may change, and missing handlers that have something to put back."""
    found = never_matches(config) + cut_short(config)
    found += [f"handlers.{name}: {problem}" for name, each in config.handlers.items() for problem in problems(each)]
    found += [
        f"handlers.{name}.healthy: {problem}"
        for name, spec in config.specs.items()
        if isinstance(spec.healthy, tuple) and spec.healthy and (problem := distrust(spec.healthy))
    ]
    lost = sorted(unfinished(events) - config.handlers.keys())
    return found + [f"handlers.{name}: missing, but it has something to put back" for name in lost]


def idle(config: Config) -> list[str]:
    """Handlers that no rule uses: this is allowed, but may be a mistake."""
    used = {name for rule in config.rules for name in rule.handlers}
    return [f"handlers.{name}: no rule uses it" for name in config.handlers if name not in used]


def never_matches(config: Config) -> list[str]:
    """Rules that can match no event: they use an unknown word, or another rule before them takes every event."""
    return [
        f"rules[{number}]{problem}"
        for number, rule in enumerate(config.rules, start=1)
        for problem in (*_unknown_words(rule), *_empty_span(rule), *_hidden(rule, config.rules[: number - 1]))
    ]


def cut_short(config: Config) -> list[str]:
    """Rules whose handlers may need longer than the shortest notice: they run one after the other, each to its timeout.

    Only spot VMs are evicted, so Preempt counts where a rule names it.
    """
    found = []
    for number, rule in enumerate(config.rules, start=1):
        types = [each for each in rule.types or SHORTEST_NOTICE if each in SHORTEST_NOTICE]
        types = [each for each in types if rule.types or each != "Preempt"]
        if not types:
            continue
        shortest = min(types, key=SHORTEST_NOTICE.__getitem__)
        notice = min(SHORTEST_NOTICE[shortest], rule.within or SHORTEST_NOTICE[shortest])
        needed = sum(config.specs[name].timeout for name in rule.handlers)
        if needed > notice - RESERVE:
            timeouts = " + ".join(f"{name} {config.specs[name].timeout:g} s" for name in rule.handlers)
            begins = f"begins {notice:g} s before" if notice == rule.within else f"may come {notice:g} s before"
            found.append(
                f"rules[{number}]: {shortest} {begins} the impact, and its handlers may take {needed:g} s "
                f"({timeouts}). The last would be cut off, as {RESERVE:g} s are for the approval. Shorten them, or "
                f"write a rule for {shortest} alone before it"
            )
    return found


def _unknown_words(rule: HandlerRule) -> Iterator[str]:
    for key, words, known in (("types", rule.types, TYPES), ("sources", rule.sources, SOURCES)):
        for word in words:
            if word not in known:
                yield f".{key}: {word!r} never matches. {near_miss(word, known, key)}"


def _empty_span(rule: HandlerRule) -> Iterator[str]:
    """Durations are whole seconds."""
    if rule.shorter_than is not None and rule.longer_than is not None and rule.shorter_than <= rule.longer_than + 1:
        yield f": no event is shorter than {rule.shorter_than:g} s and longer than {rule.longer_than:g} s"


def _hidden(rule: HandlerRule, before: Sequence[HandlerRule]) -> Iterator[str]:
    """The first rule that matches wins, so a rule that matches everything hides those after it."""
    taken = {pair for other in before if _looks_at_no_more(other) for pair in _pairs(other)}
    if taken and taken.issuperset(_pairs(rule)):
        yield ": never matches, because the rules before it take every such event. Put it before them"


def _looks_at_no_more(rule: HandlerRule) -> bool:
    return not rule.resources and rule.shorter_than is None and rule.longer_than is None


def _pairs(rule: HandlerRule) -> Iterator[tuple[str, str]]:
    """The types and sources that it matches."""
    return product(rule.types or SHORTEST_NOTICE, rule.sources or SOURCES)


def outlook(config: Config) -> list[dict[str, Any]]:
    """For each type of event the rules that may apply, in order, and what each does."""
    named = any(ADVICE in rule.types for rule in config.rules)
    return [row for event_type in (TYPES if named else SHORTEST_NOTICE) for row in _rows(config, event_type)]


def _rows(config: Config, event_type: str) -> Iterator[dict[str, Any]]:
    for number, rule in enumerate(config.rules, start=1):
        if event_type in rule.types or (not rule.types and event_type != ADVICE):
            condition = _condition(rule)
            yield _row(event_type, str(number), condition, _does(config, rule, event_type))
            if condition == "always":
                return
    yield _row(event_type, "–", "otherwise", "no rule: left alone, never approved")


def _row(event_type: str, rule: str, condition: str, does: str) -> dict[str, Any]:
    return {"type": event_type, "rule": rule, "when": condition, "does": does}


def _condition(rule: HandlerRule) -> str:
    parts = {
        "source": " or ".join(rule.sources),
        "VM": " or ".join(rule.resources),
        "shorter than": "" if rule.shorter_than is None else f"{rule.shorter_than:g} s",
        "longer than": "" if rule.longer_than is None else f"{rule.longer_than:g} s",
    }
    return ", ".join(f"{name} {value}" for name, value in parts.items() if value) or "always"


def _does(config: Config, rule: HandlerRule, event_type: str) -> str:
    specs = [config.specs[name] for name in rule.handlers]
    names = [f"{spec.name} ({spec.timeout:g} s{'' if spec.required else ', best effort'})" for spec in specs]
    after = {
        "never": "wait for it",
        "own": "approve if leader",
        "all-ready": "approve if leader and all are ready",
    }[config.approval.policy]
    if event_type == ADVICE:
        return " → ".join([*names, "never approve: it is advice"])
    anyhow = ", even after a failure" if rule.approve_after_failure and config.approval.policy != "never" else ""
    return " → ".join([*names, after + anyhow])


class Online(NamedTuple):
    """What the service said; `ahead` is by how many seconds its clock is ahead of ours, if it told the time."""

    name: str
    ahead: float | None


def ask_service(config: Config) -> Online:
    """Ask once, as the agent would; raises a `MetadataError` when there is no answer."""
    from duenotice.client import (
        MetadataClient,  # only this command needs it, and not the agent, which imports this file
    )

    source = config.metadata.source_address or None
    with MetadataClient(config.metadata.endpoint or None, source_address=source) as client:
        name = client.instance_name()
        return Online(name, client.service_ahead)


def online_findings(config: Config, online: Online) -> list[str]:
    """What would keep the agent from doing its work in time."""
    found = []
    if config.metadata.name not in ("", online.name):
        found.append(
            f"metadata.name: it is {config.metadata.name!r} here, but the service calls this VM {online.name!r}, "
            "so the agent would ignore all events"
        )
    if online.ahead is not None and abs(online.ahead) > RESERVE:
        how = "behind" if online.ahead > 0 else "ahead of"
        found.append(
            f"clock: this machine is {span(online.ahead)} {how} the service, so the notice left would be wrong. "
            "Use NTP to keep it correct"
        )
    return found


def online_summary(online: Online) -> str:
    """What was learned, in one line."""
    clock = (
        "it does not say what time it is" if online.ahead is None else f"our clocks differ by {abs(online.ahead):.0f} s"
    )
    return f"The metadata service calls this VM {online.name!r}; {clock}."
