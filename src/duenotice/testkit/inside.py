"""Runs a program in a network of its own, where 169.254.169.254:80 is ours, on a machine that has the VM's name; run as
a child, by `sandbox`.

Needs no privileges: a user namespace of the same user makes the network namespace ours. The listening sockets are made
in here, where they belong to the new network, and handed out to the parent, who answers them. Standard library only,
so that it starts quickly.
"""

import ctypes
import fcntl
import json
import os
import socket
import struct
import sys
from pathlib import Path

from duenotice.testkit.keeper import CANNOT_RUN, keep

METADATA_ADDRESS = "169.254.169.254"
METADATA_PORT = 80
BACKLOG = 128
JOIN = "join"
NAMESPACES = ("user", "net", "uts")

_CLONE_NEWUSER, _CLONE_NEWNET, _CLONE_NEWUTS = 0x10000000, 0x40000000, 0x04000000
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _SIOCSIFADDR, _SIOCSIFNETMASK = 0x8913, 0x8914, 0x8916, 0x891C
_IFF_UP = 1


def main(arguments: list[str]) -> None:
    """`FD NAME PORT,PORT… PROGRAM ARGUMENT…`: the result is sent over the socket FD, which is then the leash.

    `FD join FD FD FD PROGRAM ARGUMENT…`: run the program once more, where it was before.
    """
    parent = socket.socket(fileno=int(arguments[0]))
    if arguments[1] == JOIN:
        program = 2 + len(NAMESPACES)
        _join([int(descriptor) for descriptor in arguments[2:program]])
        keep(parent, arguments[program:])
    ports = [int(port) for port in arguments[2].split(",") if port]
    try:
        _enter()
        socket.sethostname(arguments[1])  # many clients look for their hostname in Resources
        listening = [_listen(METADATA_ADDRESS, METADATA_PORT), *_relays(ports)]
    except OSError as error:
        parent.sendall(json.dumps({"error": f"{error.strerror or error}"}).encode())
        sys.exit(CANNOT_RUN)
    told = {"ports": [one.getsockname()[1] for one in listening]}
    namespaces = [os.open(f"/proc/self/ns/{name}", os.O_RDONLY) for name in NAMESPACES]
    socket.send_fds(parent, [json.dumps(told).encode()], [*(one.fileno() for one in listening), *namespaces])
    for one in listening:
        one.close()
    if parent.recv(2) != b"go":
        sys.exit(CANNOT_RUN)
    keep(parent, arguments[3:])


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


if __name__ == "__main__":
    main(sys.argv[1:])
