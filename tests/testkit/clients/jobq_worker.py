"""A worker with the preemption handler of ai4s.jobq, unmodified, until it is told to shut down."""

import asyncio
import importlib
import logging
import os
import sys
import types
from pathlib import Path
from typing import Any


def handlers() -> Any:
    """The module of the handler; its package would load the queues of Azure's SDK, which only its jobs need."""
    package: Any = types.ModuleType("ai4s.jobq")
    package.__path__ = [str(Path(sys.argv[1]) / "ai4s" / "jobq")]
    package.JobQ = object
    sys.modules["ai4s"] = types.ModuleType("ai4s")
    sys.modules[package.__name__] = package
    return importlib.import_module("ai4s.jobq.scheduled_events")


async def main() -> None:
    """Work until the handler says that this is the end."""
    shutdown = asyncio.Event()
    async with handlers().PreemptionEventHandler(shutdown, poll_interval_seconds=0.5):
        await shutdown.wait()


os.environ["AZ_BATCH_TASK_ID"] = "a task"  # by which it knows that it is on Azure
logging.basicConfig(level=logging.INFO)
asyncio.run(main())
