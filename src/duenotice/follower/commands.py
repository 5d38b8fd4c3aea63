"""What VMs ask a follower for is done by its node (N09): the first poll of a scope, and approvals."""

from duenotice.domain.commands import ApproveEvents, Command, EnableScope
from duenotice.engine.threads import WorkerThread
from duenotice.errors import InvariantBroken, Misconfigured, Unavailable
from duenotice.follower.following import Following
from duenotice.wire import replication as f

AT_ONCE = 4
MOST = 10_000
"""Commands under way and waiting; a whole fleet may ask for the first time."""


class PassedCommands:
    """To the node that is followed when they come; never to two of them, as nobody knows what the first one did."""

    def __init__(self, following: Following) -> None:
        self._following = following
        self._asking = WorkerThread("command", threads=AT_ONCE)
        self._count = 0

    def stop(self) -> None:
        """Nobody asks any more."""
        self._asking.shutdown(wait=False, cancel=True)

    async def submit(self, command: Command, actor: str) -> object:
        """Have it done; it is done when VMs can see its result here."""
        done = await self._passed_on(_asked(command))
        if not await self._following.reaches(done.position):
            raise Unavailable("It is done, but is not seen here yet.", hint="Ask again.")
        return done

    async def _passed_on(self, asked: f.VmCommand) -> f.Done:
        if self._count >= MOST:
            raise Unavailable("Too many VMs ask at once.", hint="Ask again.")
        self._count += 1
        try:
            following = self._following
            return await self._asking.call(lambda: following.line.command(asked))
        except Misconfigured as trouble:  # ours, not the VM's; our token may also be too new for this node
            raise Unavailable(trouble.message, hint=trouble.hint) from None
        finally:
            self._count -= 1


def _asked(command: Command) -> f.VmCommand:
    match command:
        case EnableScope(vm=vm):
            return f.VmCommand(vm)
        case ApproveEvents(event_ids=event_ids, vm=str(vm)):
            return f.VmCommand(vm, event_ids)
        case _:
            raise InvariantBroken(f"A follower does not do {type(command).__name__}.", hint="Please report this.")
