"""A gRPC client that costs next to nothing: enough of HTTP/2 to send calls made beforehand and take their answers.

A client in Python that uses grpcio spends more on a call than the servers that are measured here. This one announces a
header table of size 0 and takes a call for answered well when a message arrives before the stream ends; a refused call
has none.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import cast

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_STREAM, ACK, END_HEADERS = 1, 1, 4
HEADER_TABLE_SIZE, ENABLE_PUSH, INITIAL_WINDOW_SIZE = 1, 2, 4
WINDOW = 2**31 - 1
FIRST_WINDOW = 65_535  # what every peer may send at first
CREDIT = 2**24

Done = Callable[[bytes], None]


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload


def literal(name: bytes, value: bytes) -> bytes:
    """A header field that no table remembers; a name of one byte is an index into the static table."""
    named = name if len(name) == 1 else b"\0" + bytes((len(name),)) + name
    return named + bytes((len(value),)) + value


def call_headers(path: str) -> bytes:
    """The header block of a gRPC call; the path has at most 126 characters."""
    post, http, path_name, authority = b"\x83", b"\x86", b"\x04", b"\x01"
    fields = ((b"content-type", b"application/grpc"), (b"te", b"trailers"), (b"x-request-id", b"bench"))
    return (
        post
        + http
        + literal(path_name, path.encode())
        + literal(authority, b"bench")
        + b"".join(literal(name, value) for name, value in fields)
    )


class Connection(asyncio.Protocol):
    """One connection. ``call`` sends at the end of the present turn of the loop, together with what else there is."""

    def __init__(self) -> None:
        self.failed = ""
        self._loop = asyncio.get_running_loop()
        self._rest = b""
        self._out: list[bytes] = []
        self._waiting: deque[tuple[bytes, bytes, Done]] = deque()
        self._calls: dict[int, tuple[Done, list[bytes]]] = {}
        self._next_stream = 1
        self._window = FIRST_WINDOW
        self._received = 0
        self._flushing = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        wishes = ((HEADER_TABLE_SIZE, 0), (ENABLE_PUSH, 0), (INITIAL_WINDOW_SIZE, WINDOW))
        payload = b"".join(name.to_bytes(2, "big") + value.to_bytes(4, "big") for name, value in wishes)
        self._transport.write(PREFACE + frame(SETTINGS, 0, 0, payload) + _credit(WINDOW - FIRST_WINDOW))

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail("the server closed the connection")

    def close(self) -> None:
        self._calls.clear()
        self._transport.close()

    def call(self, headers: bytes, message: bytes, done: Done) -> None:
        """``done`` gets the answer's message, empty when the call failed."""
        self._waiting.append((headers, message, done))
        if not self._flushing:
            self._flushing = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        while self._waiting and len(self._waiting[0][1]) + 5 <= self._window:
            headers, message, done = self._waiting.popleft()
            stream, self._next_stream = self._next_stream, self._next_stream + 2
            body = b"\0" + len(message).to_bytes(4, "big") + message
            self._window -= len(body)
            self._calls[stream] = (done, [])
            self._out += (frame(HEADERS, END_HEADERS, stream, headers), frame(DATA, END_STREAM, stream, body))
        if self._out:
            self._transport.write(b"".join(self._out))
            self._out.clear()

    def data_received(self, data: bytes) -> None:
        buffer, at = self._rest + data, 0
        while len(buffer) - at >= 9:
            length = int.from_bytes(buffer[at : at + 3], "big")
            if len(buffer) - at < 9 + length:
                break
            stream = int.from_bytes(buffer[at + 5 : at + 9], "big")
            self._frame(buffer[at + 3], buffer[at + 4], stream, buffer[at + 9 : at + 9 + length])
            at += 9 + length
        self._rest = buffer[at:]
        if self._received > CREDIT:
            self._out.append(_credit(self._received))
            self._received = 0
        self._flush()

    def _frame(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind == DATA:
            self._received += len(payload)
            self._calls[stream][1].append(payload)
        if kind == RST_STREAM or (kind in (DATA, HEADERS) and flags & END_STREAM):
            done, parts = self._calls.pop(stream)
            done(b"".join(parts)[5:])
        elif kind == SETTINGS and not flags & ACK:
            self._out.append(frame(SETTINGS, ACK, 0, b""))
        elif kind == PING and not flags & ACK:
            self._out.append(frame(PING, ACK, 0, payload))
        elif kind == WINDOW_UPDATE and not stream:
            self._window += int.from_bytes(payload, "big")
        elif kind == GOAWAY:
            self._fail(f"the server ended the connection: {payload[8:]!r}")

    def _fail(self, why: str) -> None:
        self.failed = self.failed or why
        calls, self._calls = self._calls, {}
        for done, _ in calls.values():
            done(b"")


def _credit(size: int) -> bytes:
    return frame(WINDOW_UPDATE, 0, 0, size.to_bytes(4, "big"))
