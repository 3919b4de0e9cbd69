"""Where the server listens, and which names in a Host header are its own."""

import errno
import re
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address

from mocosearch.errors import CannotServe

FIRST_PORT = 7860
_PORTS_TRIED = 100
_BACKLOG = 128  # connections that may wait to be accepted
_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})
HOST = r"\[[0-9a-f:.]+\]|[a-z0-9._-]+"  # as it stands in a Host header, in small letters


@dataclass(frozen=True, slots=True)
class Address:
    """An address of this machine to listen at, and the names under which people reach it.

    With names of its own somebody is expected to stand before the server: a proxy.
    """

    host: IPv4Address | IPv6Address
    own_names: frozenset[str] = frozenset()

    @classmethod
    def of(cls, host: str, names: Iterable[str] = ()) -> "Address":
        """Read what a person said. Raises CannotServe for what is no address or no name."""
        try:
            read = ip_address("127.0.0.1" if host == "localhost" else host.strip("[]"))
        except ValueError as error:
            raise CannotServe(
                f"--host takes an IP address of this machine such as 192.168.1.20, not {host}."
            ) from error
        for name in names:
            if not re.fullmatch(HOST, name.lower()):
                raise CannotServe(f"--name takes a host name such as photos.example, without http:// or port: {name}")
        return cls(read, frozenset(name.lower() for name in names))

    @property
    def is_local(self) -> bool:
        """Whether programs of this machine alone can connect."""
        return self.host.is_loopback

    @property
    def reached_at(self) -> str | None:
        """Where others reach the server, directly or through a proxy; None: programs of this machine alone do."""
        return " and ".join(sorted(self.own_names)) or (None if self.is_local else str(self.host))

    def answers_to(self, name: str) -> bool:
        """Tell whether `name`, from a Host header without its port, is one of ours.

        Any other name could have been pointed here by a stranger's web page (DNS rebinding). An IP address cannot be
        pointed anywhere, so where others may connect, those are all taken.
        """
        name = name.lower()
        if name in _LOOPBACK_NAMES or name in self.own_names or name == self._in_address(self.host):
            return True
        return not self.is_local and (_is_ip(name) or name in _machine_names())

    def url(self, port: int) -> str:
        """The address for a person to open."""
        host = socket.gethostname().lower() if self.host.is_unspecified else self._in_address(self.host)
        return f"http://{host}:{port}"

    @staticmethod
    def _in_address(host: IPv4Address | IPv6Address) -> str:
        return f"[{host}]" if host.version == 6 else str(host)


def _is_ip(name: str) -> bool:
    try:
        ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


def _machine_names() -> set[str]:
    """What this machine is called in its own network; asks nobody."""
    name = socket.gethostname().lower()
    short = name.partition(".")[0]
    return {name, short, f"{short}.local"}


def listen(address: Address, port: int | None) -> socket.socket:
    """Bind `port`, or the first free one from FIRST_PORT on. Raises CannotServe for one that cannot be had."""
    family = socket.AF_INET6 if address.host.version == 6 else socket.AF_INET
    both = str(address.host) == "::" and socket.has_dualstack_ipv6()  # IPv4 as well
    for candidate in range(FIRST_PORT, FIRST_PORT + _PORTS_TRIED) if port is None else [port]:
        try:
            listener = socket.create_server(
                (str(address.host), candidate), family=family, backlog=_BACKLOG, dualstack_ipv6=both
            )
            # Connections inherit it, and asyncio sets it only for sockets that it made itself. Without it the body of
            # every answer waits 40 ms until the client's system has acknowledged the head.
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)
            return listener
        except OSError as error:
            if error.errno == errno.EACCES:
                raise CannotServe(f"Port {candidate} is kept for the system: choose one from 1024 on.") from error
            if error.errno == errno.EADDRNOTAVAIL:
                raise CannotServe(f"{address.host} is no address of this machine: `hostname -I` lists them.") from error
            if error.errno != errno.EADDRINUSE:
                raise
    if port is not None:
        raise CannotServe(f"Port {port} is taken: choose another, or leave --port out for the next free one.")
    last = FIRST_PORT + _PORTS_TRIED - 1
    raise CannotServe(f"All ports from {FIRST_PORT} to {last} are taken: choose another with --port.")
