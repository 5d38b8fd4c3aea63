"""The admin token of a node that starts before anybody leads: it counts as soon as it can be stored."""

from pathlib import Path

import pytest

from duenotice.bootstrap.node import Service
from duenotice.domain.commands import CreateToken
from duenotice.domain.token import Role, digest_of
from duenotice.engine.node_engine import NodeEngine
from duenotice.errors import Unavailable
from duenotice.settings import ServeSettings
from tests.unit.engine.cluster_rig import LEASE, three
from tests.unit.engine.rig import in_loop


async def _with_another_admin(engine: NodeEngine) -> None:
    await engine.submit(CreateToken("T-1", "admin@a", Role.ADMIN, digest_of("another")), "test")


def test_a_token_that_could_not_be_stored_at_first_is_stored_at_the_next_try(tmp_path: Path) -> None:
    """Its file is there after the first try already; it is new all the same."""

    @in_loop
    async def test() -> None:
        async with three() as cluster:
            await _with_another_admin(cluster.leader.engine)
            cluster.kill(cluster.leader)
            node = cluster.others[0]
            node.engine.patience = 0.01
            service = Service(ServeSettings(data_dir=str(tmp_path), journal="postgresql://elsewhere", node="b"))
            service.engine = node.engine
            for _ in range(2):
                with pytest.raises(Unavailable):
                    await service._let_admin_in()
            await cluster.until(lambda: any(each.engine.leads for each in cluster.nodes if not each.is_dead), 2 * LEASE)
            await service._let_admin_in()
            assert digest_of(service.token) in [token.digest for token in node.engine.state.tokens.values()]

    test()
