"""The agent as a process: ledger, client, signals, systemd. SIGTERM stops it, SIGHUP reads the file again."""

import asyncio
import signal
from pathlib import Path

from duenotice import __version__
from duenotice.agent.check import never_matches
from duenotice.agent.config import Config, load_config
from duenotice.agent.handlers.loading import problems
from duenotice.agent.handlers.runs import AT_START, RUNS
from duenotice.agent.handlers.trust import require_trusted_files
from duenotice.agent.ledger import Ledger, MemoryLedger, Recorder, read_events
from duenotice.agent.log import complain, log
from duenotice.agent.runtime import Agent
from duenotice.client import AsyncMetadataClient
from duenotice.errors import DuenoticeError, Refused
from duenotice.system import sd_notify, watchdog_seconds
from duenotice.wire.seen_documents import ADVICE

DEFAULT_STATE_DIR = Path("/var/lib/duenotice")


async def run(file: Path, state_dir: Path, dry_run: bool = False) -> None:
    """Run until told to stop."""
    config = load_config(file)
    _warn(config)
    require_trusted_files(state_dir)
    ledger = MemoryLedger(read_events(state_dir)) if dry_run else Ledger(state_dir)
    source = config.metadata.source_address or None
    try:
        endpoint, advice = config.metadata.endpoint or None, wants_advice(config)
        async with AsyncMetadataClient(endpoint, source_address=source, advice=advice) as client:
            if isinstance(ledger, Ledger):
                await _end_left(state_dir)
                RUNS.require_trusted()
            agent = Agent(config, Recorder(ledger), client, state_dir, dry_run)
            if dry_run:
                log("dry-run", note="Nothing is done and nothing is approved: 'would' shows what a real run would do.")
            await _live(agent, file)
    finally:
        if isinstance(ledger, Ledger):
            await ledger.close()


def wants_advice(config: Config) -> bool:
    """Whether a rule names the advice that spot VMs are given: most services do not have it."""
    return any(ADVICE in rule.types for rule in config.rules)


async def _end_left(state_dir: Path) -> None:
    """A program of the last agent must not go on after this one has put back (S15)."""
    RUNS.keep_in(state_dir)
    try:
        await RUNS.end_left(AT_START)
    except DuenoticeError as error:  # its handler waits for it; others need not
        complain("hook-alive", error)


async def _live(agent: Agent, file: Path) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, agent.stop)
    loop.add_signal_handler(signal.SIGHUP, reread, agent, file)
    heart = asyncio.ensure_future(_beat())
    try:
        await agent.run(lambda: _say_ready(agent))
    finally:
        sd_notify("STOPPING=1")
        heart.cancel()
    log("stopped")


def _say_ready(agent: Agent) -> None:
    log("running", version=__version__, policy=agent.config.approval.policy, handlers=sorted(agent.config.handlers))
    sd_notify("READY=1")


def reread(agent: Agent, file: Path) -> None:
    """Read the file again. It is refused if it is wrong, or drops a handler that has something to put back (S15)."""
    try:
        config = load_config(file)
        RUNS.require_trusted()
        _check_nothing_is_lost(agent, config)
    except DuenoticeError as error:
        complain("config-refused", error)
        return
    agent.use(config)
    log("config-reread", handlers=sorted(config.handlers))
    _warn(config)


def _warn(config: Config) -> None:
    """Say what does not work, but run: a newer service may have new types, and a file may be put right meanwhile."""
    for name, handler in config.handlers.items():
        for problem in problems(handler):
            log("handler-refused", "error", handler=name, reason=problem)
    for problem in never_matches(config):
        log("rule-idle", "warning", problem=problem)


def _check_nothing_is_lost(agent: Agent, config: Config) -> None:
    if lost := agent.unfinished - config.handlers.keys():
        raise Refused(
            f"{', '.join(sorted(lost))} still has something to put back.", hint="Remove it when the event is over."
        )


async def _beat() -> None:
    """Tell systemd's watchdog that the loop still runs."""
    pause = watchdog_seconds()
    while pause:
        sd_notify("WATCHDOG=1")
        await asyncio.sleep(pause)
