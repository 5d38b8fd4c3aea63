"""What a scenario asks with, over real HTTP: parsed JSON, or our errors."""

from typing import Any

from duenotice.cli.scenario import asking
from duenotice.client import OperatorClient
from tests.support.cli import endpoint
from tests.support.node import Node


class Asker:
    """The operator's API of a node as a function."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def __call__(self, method: str, path: str, body: Any = None) -> Any:
        with OperatorClient(endpoint(self._node), self._node.token, budget=0) as client:
            return asking(client)(method, path, body)
