"""A journal in PostgreSQL as the node writes it that leads: for tests of the journal, without an engine."""

from contextlib import ExitStack, suppress
from pathlib import Path

from duenotice import __version__
from duenotice.clock import wall
from duenotice.engine.lives import new_life
from duenotice.errors import DuenoticeError
from duenotice.store.data_dir import CheckpointFile
from duenotice.store.postgres import PostgresJournal
from duenotice.store.postgres_members import PostgresMembers
from duenotice.store.postgres_schema import prepared


class LeadingJournal(PostgresJournal):
    """The journal of a member that leads from now on, in place of whoever did. It does not beat."""

    def __init__(self, url: str, data_dir: Path | None, node: str = "node-a") -> None:
        with ExitStack() as undo:
            checkpoint = CheckpointFile(data_dir)
            undo.callback(checkpoint.close)
            cluster = prepared(url, checkpoint.refuse_unless_of).cluster
            members, life = PostgresMembers(url), new_life(wall())
            undo.callback(members.close)
            for member in members.look().members:
                members.leave(member.life)
            members.register(life, node, "", __version__)
            super().__init__(url, members, checkpoint, life)
            checkpoint.note(cluster=cluster, life=life)
            members.join(life, self.last_position())
            head = members.take_over(life, members.look().head.epoch, 0)
            assert head is not None
            self.epoch = head.epoch
            undo.pop_all()

    def note_seen(self, position: int) -> None:
        """The database knows how far all is shown."""
        super().note_seen(position)
        self._members.show(self.life, self.epoch, position)

    def close(self) -> None:
        """Leave, as a node does when it is stopped."""
        with suppress(DuenoticeError):
            self._members.leave(self.life)
        super().close()
