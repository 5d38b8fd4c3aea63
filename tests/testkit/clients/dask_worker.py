"""A Dask worker with dask-cloudprovider's plugin for spot VMs, unmodified, until it closes."""

import asyncio
import importlib
import importlib.util
import logging
import sys
import types
from typing import Any


def plugin() -> Any:
    """The plugin; its package would load the whole of Azure's SDK, which only its cluster manager needs."""
    found = importlib.util.find_spec("dask_cloudprovider")
    assert found is not None and found.submodule_search_locations
    package = types.ModuleType("dask_cloudprovider.azure")
    package.__path__ = [f"{found.submodule_search_locations[0]}/azure"]
    sys.modules[package.__name__] = package
    return importlib.import_module("dask_cloudprovider.azure.utils").AzurePreemptibleWorkerPlugin(poll_interval_s=0.5)


async def main() -> None:
    """A scheduler and a worker, as they are."""
    distributed = importlib.import_module("distributed")
    async with (
        distributed.Scheduler(host="127.0.0.1", port=0, dashboard=False) as scheduler,
        distributed.Worker(scheduler.address, host="127.0.0.1", port=0, dashboard=False) as worker,
    ):
        await worker.plugin_add(plugin())
        await worker.finished()


logging.basicConfig(level=logging.INFO)
asyncio.run(main())
