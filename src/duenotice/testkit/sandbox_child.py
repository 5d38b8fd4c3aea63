"""The child that `sandbox` starts: it runs a program, and ends it with all that it has started when nobody wants it.

It may first make a network of its own, where 169.254.169.254:80 is ours, on a machine that has the VM's name. Needs no
privileges: a user namespace of the same user makes the network namespace ours. The listening sockets are made in here,
where they belong to the new network, and handed out to the parent, who answers them.

A process that is killed with -9 cannot clean up. So the parent holds the other end of a control socket: when it is
gone, for whatever reason, the system closes it, and we notice. On Linux orphans of the program become our children, so
a daemon with its own session ends too; on other systems only the program's own group does. Standard library only, so
that it starts quickly.
"""

import ctypes
import errno
import fcntl
import json
import os
import resource
import signal
import socket
import struct
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

METADATA_ADDRESS = "169.254.169.254"
METADATA_PORT = 80
BACKLOG = 128
NETWORK, JOIN, SUPERVISE = "network", "join", "supervise"
NAMESPACES = ("user", "net", "uts")
CANNOT_RUN = 127

_CLONE_NEWUSER, _CLONE_NEWNET, _CLONE_NEWUTS = 0x10000000, 0x40000000, 0x04000000
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _SIOCSIFADDR, _SIOCSIFNETMASK = 0x8913, 0x8914, 0x8916, 0x891C
_IFF_UP = 1
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_LINUX = sys.platform == "linux"


def main(arguments: list[str]) -> NoReturn:
    """`FD` is the control socket, over which also results are sent. Then:

    `network NAME PORT,PORT… PROGRAM ARGUMENT…`: in a network of its own. `join FD FD FD PROGRAM ARGUMENT…`: once more,
    where it was before. `supervise PROGRAM ARGUMENT…`: here.
    """
    control, mode = socket.socket(fileno=int(arguments[0])), arguments[1]
    program = arguments[2:]
    if mode == NETWORK:
        _make_network(control, arguments[2], [int(port) for port in arguments[3].split(",") if port])
        program = arguments[4:]
    elif mode == JOIN:
        _join([int(descriptor) for descriptor in arguments[2 : 2 + len(NAMESPACES)]])
        program = arguments[2 + len(NAMESPACES) :]
    supervise(control, program)


def _make_network(control: socket.socket, hostname: str, ports: list[int]) -> None:
    """Tell the parent of it, and wait until the program may begin."""
    try:
        _enter()
        socket.sethostname(hostname)  # many clients look for their hostname in Resources
        listening = [_listen(METADATA_ADDRESS, METADATA_PORT), *_relays(ports)]
    except OSError as error:
        control.sendall(json.dumps({"error": f"{error.strerror or error}"}).encode())
        sys.exit(CANNOT_RUN)
    told = {"ports": [one.getsockname()[1] for one in listening]}
    namespaces = [os.open(f"/proc/self/ns/{name}", os.O_RDONLY) for name in NAMESPACES]
    socket.send_fds(control, [json.dumps(told).encode()], [*(one.fileno() for one in listening), *namespaces])
    for one in listening:
        one.close()
    if control.recv(2) != b"go":
        sys.exit(CANNOT_RUN)


def _join(namespaces: list[int]) -> None:
    """The user first: it is the one that may join the network."""
    for namespace in namespaces:
        _call("setns", namespace, 0)
        os.close(namespace)


def _call(name: str, *arguments: int) -> None:
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _enter() -> None:
    user, group = os.getuid(), os.getgid()
    _call("unshare", _CLONE_NEWUSER | _CLONE_NEWNET | _CLONE_NEWUTS)
    Path("/proc/self/setgroups").write_text("deny")
    # The same user as outside: the program sees no difference, and loses our powers over the network when it begins.
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        _give_address(control, "lo:0", METADATA_ADDRESS)
        _bring_up(control, "lo")


def _bring_up(control: socket.socket, name: str) -> None:
    asked = struct.pack("16sh14x", name.encode(), 0)
    flags = struct.unpack("16xh14x", fcntl.ioctl(control, _SIOCGIFFLAGS, asked))[0]
    fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sh14x", name.encode(), flags | _IFF_UP))


def _give_address(control: socket.socket, name: str, address: str) -> None:
    for request, value in ((_SIOCSIFADDR, address), (_SIOCSIFNETMASK, "255.255.255.255")):
        packed = struct.pack("16sHH4s8x", name.encode(), socket.AF_INET, 0, socket.inet_aton(value))
        fcntl.ioctl(control, request, packed)


def _listen(address: str, port: int) -> socket.socket:
    return socket.create_server((address, port), backlog=BACKLOG)


def _relays(ports: list[int]) -> list[socket.socket]:
    """The ports that somebody listens on outside; those we cannot take are left out."""
    opened = []
    for port in ports:
        try:
            opened.append(_listen("127.0.0.1", port))
        except OSError:
            continue
    return opened


def supervise(control: socket.socket, program: list[str]) -> NoReturn:
    """Run a program until it ends or nobody holds the other end; end as it did. We pass a SIGTERM on to its group."""
    control.set_inheritable(False)
    libc = ctypes.CDLL(None)
    if _LINUX:
        libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    child = os.fork()
    if child == 0:
        _become(program, libc)
    signal.signal(signal.SIGTERM, lambda *_: _signal(child, signal.SIGTERM))
    threading.Thread(target=_end_when_let_go, args=(control, child), daemon=True).start()
    status = _wait_for(child)
    _signal(child, signal.SIGKILL)
    _end_orphans()
    _end_as(os.waitstatus_to_exitcode(status))


def _become(program: list[str], libc: ctypes.CDLL) -> NoReturn:
    """The program, in a session of its own, where one signal reaches it and its children."""
    os.setsid()
    if _LINUX:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # also if somebody kills us
    try:
        os.execvp(program[0], program)
    except OSError as error:
        hint = "It needs a first line such as #!/bin/sh, or a machine of its own kind." * (error.errno == errno.ENOEXEC)
        sys.stderr.write(f"error: Cannot run {program[0]!r}: {error.strerror}.\n hint: {hint or 'Is it executable?'}\n")
        sys.stderr.flush()
    os._exit(CANNOT_RUN)


def _end_when_let_go(control: socket.socket, child: int) -> None:
    with suppress(OSError):
        while control.recv(16):
            pass
    _signal(child, signal.SIGKILL)


def _signal(group: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _wait_for(child: int) -> int:
    """How it ended; orphans that end before it are let go on the way."""
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == child:
            return status


def _end_orphans() -> None:
    """End the processes that have become our children, then their orphans, until none is left."""
    with suppress(ChildProcessError):
        while True:
            for pid in _children():
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            os.waitpid(-1, 0)


def _children() -> Iterator[int]:
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if int(stat.read_text().rpartition(")")[2].split()[1]) == os.getpid():
                yield int(stat.parent.name)


def _end_as(code: int) -> NoReturn:
    """With its exit code, or by the signal that ended it."""
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if -code not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code if code >= 0 else CANNOT_RUN)


if __name__ == "__main__":
    main(sys.argv[1:])
