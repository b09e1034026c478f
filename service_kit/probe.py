"""Small questions to the network: is this port free, does that probe say yes."""

from __future__ import annotations

import asyncio
import errno
import socket
from contextlib import closing, suppress


def is_free(host: str, port: int) -> bool:
    """Whether a server could listen there now; port 0 always can. Raises OSError for a host that is not ours."""
    if port == 0:
        return True
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    with closing(socket.socket(family, kind, protocol)) as attempt:
        attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a port that only lingers after a stop is free
        try:
            attempt.bind(address)
            attempt.listen(1)
        except OSError as error:
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                return False
            raise
    return True


async def says_yes(host: str, port: int, path: str, limit_s: float = 1.0) -> bool:
    """Whether ``GET path`` answers 200 within the limit."""
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(limit_s):
            reader, writer = await asyncio.open_connection(host, port)
            with closing(writer):
                writer.write(f"GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n".encode())
                status = await reader.readline()
                return status.split(b" ")[1:2] == [b"200"]
    return False
