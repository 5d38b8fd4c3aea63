"""Calls of the operator's API of a service in this process, for scenarios that are played with a client beside them."""

import http.client
import json
import time
from contextlib import closing
from typing import Any

from duenotice.errors import DuenoticeError, NotFound, Refused
from duenotice.scenarios.asking import path
from duenotice.testkit.emulator import PATIENCE_SECONDS, Emulator

SLICE_SECONDS = 0.1
_ADVANCE = path("clock", "advance")


class Asker:
    """How a scenario asks the service. Time that it lets pass takes real time, because a client is watching."""

    def __init__(self, emulator: Emulator, speed: float = 0.0) -> None:
        """`speed` is how much faster the service's clock goes than ours; 0 lets no real time pass."""
        self._service = emulator.service
        self._speed = speed

    def __call__(self, method: str, path: str, body: Any = None) -> Any:
        """One call."""
        if path == _ADVANCE and self._speed:
            self._let_pass(float(body["by"]))
            body = {"by": "0.000"}
        return self._call(method, path, body)

    def _let_pass(self, seconds: float) -> None:
        while seconds > 0:
            some = min(seconds, SLICE_SECONDS * self._speed)
            time.sleep(some / self._speed)
            self._call("POST", _ADVANCE, {"by": f"{some:.3f}"})
            seconds -= max(some, 0.001)

    def _call(self, method: str, path: str, body: Any) -> Any:
        connection = http.client.HTTPConnection(*self._service.operator_address, timeout=PATIENCE_SECONDS)
        with closing(connection):
            payload = None if body is None else json.dumps(body)
            connection.request(method, path, payload, {"Authorization": f"Bearer {self._service.token}"})
            answer = connection.getresponse()
            text = answer.read()
        content: Any = json.loads(text) if text else None
        if answer.status < 400:
            return content
        kind = {404: NotFound, 409: Refused, 422: Refused}.get(answer.status, DuenoticeError)
        raise kind(content["title"], hint=content.get("detail", ""))
