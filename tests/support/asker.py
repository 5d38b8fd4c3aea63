"""What a scenario asks with, over real HTTP: parsed JSON, or our errors."""

import json
from typing import Any

from duenotice.cli.api import Api
from tests.support.cli import endpoint
from tests.support.node import Node


class Asker:
    """The operator's API of a node as a function."""

    def __init__(self, node: Node) -> None:
        self._api = Api(endpoint(node), node.token, 30)

    def __call__(self, method: str, path: str, body: Any = None) -> Any:
        return self._api.call(method, path, None if body is None else json.dumps(body).encode())
