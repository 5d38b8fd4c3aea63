"""What a person reads when the service has started: its addresses and three lines to try."""

import sys
from typing import TYPE_CHECKING

from duenotice.cli.saying import say
from duenotice.domain.fleet import Vm
from duenotice.plain_text import one_line
from duenotice.settings import host_port

if TYPE_CHECKING:  # a follower needs neither a journal nor an operator's API, and has no memory to spare for them
    from duenotice.bootstrap.follower_service import FollowerService
    from duenotice.bootstrap.service import Service


def follower_welcome(service: "FollowerService") -> None:
    """What it follows, and where VMs ask."""
    vms = service.state.fleet.vms
    say(f"duenotice follows {service.settings.follow} for {len(vms)} {'VM' if len(vms) == 1 else 'VMs'}", bold=True)
    say(f"  VMs ask       http://{host_port(service.metadata_address)}/metadata/scheduledevents?api-version=2020-07-01")
    sys.stdout.flush()


def welcome(service: "Service") -> None:
    """Addresses and three curl lines, on standard output; nothing when the fleet is empty."""
    vms = service.engine.state.fleet.vms
    metadata = host_port(service.metadata_address)
    operator = host_port(service.operator_address)
    say(f"duenotice serves {len(vms)} {'VM' if len(vms) == 1 else 'VMs'}", bold=True)
    if service.fleet_file.problem:
        say(one_line(f"  NOT APPLIED   {service.fleet_file.problem}"), fg="red")
    say(f"  VMs ask       http://{metadata}/metadata/scheduledevents?api-version=2020-07-01")
    say(f"  the operator  http://{operator}/v1  (token: {_token_place(service)})")
    say(f"  the console   http://{operator}/  (sign in with that token)")
    if vms:
        _examples(service, _example_vm(service), metadata, operator)
    sys.stdout.flush()


def _examples(service: "Service", vm: Vm, metadata: str, operator: str) -> None:
    ask = f"'http://{metadata}/metadata/scheduledevents?api-version=2020-07-01'"
    source = "" if vm.address == "127.0.0.1" else f"--interface {vm.address} "
    say("\nTry, in another terminal:")
    say(f"  # 1. be {vm.name} and ask: nothing is planned\n  curl {source}-H Metadata:true {ask}")
    say(f"  # 2. be the operator and restart {vm.name}, then ask again")
    say(f'  curl -X POST -H "Authorization: Bearer {_token_line(service)}" http://{operator}/v1/vms/{vm.name}/restart')
    say(f"  # 3. be {vm.name} and approve, with the EventId you were given")
    say(f'  curl {source}-H Metadata:true -d \'{{"StartRequests":[{{"EventId":"…"}}]}}\' {ask}')


def _example_vm(service: "Service") -> Vm:
    """The VM that a plain curl on this machine stands for, or the first one."""
    fleet = service.engine.state.fleet
    default = fleet.vms.get(service.settings.default_vm)
    return default or fleet.by_address.get("127.0.0.1") or next(iter(fleet.vms.values()))


def _token_place(service: "Service") -> str:
    from duenotice.operator_api.tokens import FILE

    return service.token if service.data_dir is None else str(service.data_dir / FILE)


def _token_line(service: "Service") -> str:
    return service.token if service.data_dir is None else f"$(cat {_token_place(service)})"
