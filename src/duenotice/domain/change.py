"""What every recorded change is: it can tell what it touches."""

from msgspec import Struct


class Change(Struct, frozen=True, omit_defaults=True, tag_field="change", gc=False):
    """One recorded change, which can tell what it touches: only that has to be derived again from the state."""

    @property
    def touched_scopes(self) -> tuple[str, ...]:
        """Scopes in which it changes the events, or whether they listen."""
        return ()

    @property
    def touched_vms(self) -> tuple[str, ...]:
        """Names of VMs that it adds, changes or removes."""
        return ()

    @property
    def touched_groups(self) -> tuple[str, ...]:
        """Keys of groups whose scopes may have gone with it."""
        return ()

    @property
    def touches_everything(self) -> bool:
        """Whether it changes every scope."""
        return False
