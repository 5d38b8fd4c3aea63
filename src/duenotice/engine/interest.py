"""Which VMs a reader answers, so which changes it has to acknowledge before they are shown (N17)."""

from collections.abc import Callable, Collection, Iterable, Mapping

from duenotice.domain.apply import Touched
from duenotice.domain.fleet import Vm, scope_of

Selects = Callable[[Vm], bool]


class Interest:
    """The VMs that a reader answers, and how many of them are in each scope; without `selects` it answers all.

    The names of the VMs are kept for a reader of some VMs only. Kept up to date with `follow`.
    """

    def __init__(self, selects: Selects | None = None, vms: Iterable[Vm] = ()) -> None:
        self.is_all, self._selects = selects is None, selects
        self._scope_of_vm: dict[str, str] = {}
        self._count: dict[str, int] = {}
        if selects is not None:
            for vm in vms:
                if selects(vm):
                    self._add(vm)

    @property
    def names(self) -> Collection[str]:
        """The chosen VMs."""
        return self._scope_of_vm.keys()

    @property
    def scopes(self) -> Collection[str]:
        """What the chosen VMs read."""
        return self._count.keys()

    def follow(self, names: Collection[str], vms: Mapping[str, Vm]) -> None:
        """These VMs came, went or changed."""
        if self._selects is None:
            return
        for name in names:
            if (scope := self._scope_of_vm.pop(name, None)) is not None:
                self._count[scope] -= 1
                if not self._count[scope]:
                    del self._count[scope]
            vm = vms.get(name)
            if vm is not None and self._selects(vm):
                self._add(vm)

    def _add(self, vm: Vm) -> None:
        scope = self._scope_of_vm[vm.name] = scope_of(vm)
        self._count[scope] = self._count.get(scope, 0) + 1

    def meets(self, touched: Touched) -> bool:
        """Whether the reader answers something that differs after a change, by the VMs that it has now."""
        if self._selects is None or touched.everything:
            return bool(touched.scopes or touched.vms or touched.everything)
        return not (self._count.keys().isdisjoint(touched.scopes) and self._scope_of_vm.keys().isdisjoint(touched.vms))

    def take(self, touched: Touched, vms: Mapping[str, Vm]) -> bool:
        """Follow a change, and tell whether the reader answers anything of it: before *or* after, as a VM that moves
        from one host to another may be answered at both."""
        was_met = self.meets(touched)
        self.follow(touched.vms, vms)
        return was_met or self.meets(touched)
