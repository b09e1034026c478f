"""An HTTP client that costs next to nothing: one request at a time on a connection that stays open."""

from __future__ import annotations

import asyncio
import time
from typing import cast

from bench.load import FAILED, Ended

CONTENT = b'"content":"'


class Connection(asyncio.Protocol):
    """``ask`` tells when the whole answer is there, or the first content of a stream."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._ended: Ended | None = None

    def close(self) -> None:
        self._ended = None
        self._transport.close()

    def ask(self, request: bytes, ended: Ended, firsts: list[float] | None = None) -> None:
        """``firsts`` gets the seconds until the first content arrived, where an answer is a stream."""
        self._buffer, self._ended, self._firsts = b"", ended, firsts
        self._has_content = False
        self._started = time.perf_counter()
        self._transport.write(request)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(FAILED)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if self._firsts is not None and not self._has_content and CONTENT in self._buffer:
            self._has_content = True
            self._firsts.append(time.perf_counter() - self._started)
        head, found, body = self._buffer.partition(b"\r\n\r\n")
        if not found or not _is_whole(head.lower(), body):
            return
        well = head.startswith(b"HTTP/1.1 200 ") and (self._firsts is None or self._has_content)
        self._end(time.perf_counter() - self._started if well else FAILED)

    def _end(self, taken: float) -> None:
        ended, self._ended = self._ended, None
        if ended is not None:
            ended(taken)


def _is_whole(head: bytes, body: bytes) -> bool:
    if b"transfer-encoding: chunked" in head:
        return body.endswith(b"\r\n0\r\n\r\n")
    return len(body) >= int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])


def post(port: int, body: bytes) -> bytes:
    """A chat completion request."""
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncontent-type: application/json\r\n"
    return head.encode() + b"content-length: %d\r\n\r\n%s" % (len(body), body)
