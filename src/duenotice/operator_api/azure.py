"""The call that says where `az` and the Azure SDKs find this service."""

from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import Response

from duenotice.domain.token import Role
from duenotice.engine.engine import Engine
from duenotice.errors import NotFound
from duenotice.operator_api.answers import Resource, shown
from duenotice.operator_api.calls import Call
from duenotice.wire import operator as o

TellAzure = Callable[[], o.AzureDoor | None]
"""What is known of the Azure door; None: there is none."""


class AzureDoors(Resource):
    """The Azure door of this node, as others see it."""

    def __init__(self, engine: Engine, tell: TellAzure) -> None:
        super().__init__(engine)
        self._tell = tell

    def calls(self) -> list[Call]:
        """The rows of the table."""
        summary = "Where az and the Azure SDKs find this service"
        return [Call("GET", "/v1/azure", Role.VIEWER, self.show, summary, {200: o.AzureDoor}, refusals=(404,))]

    async def show(self, _: Request) -> Response:
        """Addresses, ids, and the CA to trust."""
        told = self._tell()
        if told is None:
            raise NotFound("The service has no port for Azure's tools.", hint="Start it with --azure-listen HOST:PORT.")
        return shown(told)
