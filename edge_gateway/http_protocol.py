"""uvicorn's HTTP protocol with the limits that it leaves open: size of a head, and time for it and for reading."""

from __future__ import annotations

import asyncio
import secrets
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from edge_gateway import problems
from edge_gateway.problems import INVALID_REQUEST, Problem

LINGER_S = 2.0


class BoundedProtocol(HttpToolsProtocol):
    """Closes connections that are slow with a head, that send on and on after their answer, or that do not read."""

    max_head_bytes: int
    head_timeout_s: float
    write_timeout_s: float

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._wants_head = True
        self._head_bytes = 0
        self._late: asyncio.TimerHandle | None = None
        self._stalled: asyncio.TimerHandle | None = None
        self._refused = False
        self._answering: RequestResponseCycle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect_progress()

    def connection_lost(self, exc: Exception | None) -> None:
        self._progressed()
        if self._stalled is not None:
            self._stalled.cancel()
        # uvicorn leaves this timer running when the connection is lost by an error, as when a client closes it right
        # after the last event: it would keep all that belongs to the connection until it fires.
        self._unset_keepalive_if_required()
        if self._answering is not None:
            _tell_of_hangup(self._answering)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        if self._wants_head:
            self._head_bytes += len(data)
        if self._wants_head or self.cycle.response_complete:
            self._expect_progress()
        super().data_received(data)
        if self._wants_head and self._head_bytes > self.max_head_bytes and not self._refused:
            self._refuse(
                431, "request_header_fields_too_large", f"head: too large; allowed: {self.max_head_bytes} bytes"
            )

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._wants_head:  # a field behind the body is no header, whoever was to check those has passed it by
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._wants_head = False
        self._progressed()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._wants_head = True
        self._head_bytes = 0
        self._progressed()
        super().on_message_complete()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        # uvicorn knows the last request of a connection alone, which may wait behind the one that is being answered.
        self._answering = cycle
        super()._start_asgi_task(cycle, app)

    def pause_writing(self) -> None:
        self._stalled = self.loop.call_later(self.write_timeout_s, self.transport.abort)
        super().pause_writing()

    def resume_writing(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, "malformed_http", msg)

    def _refuse(self, status: int, code: str, message: str) -> None:
        """Answer without a request that an application could see, and end the connection.

        It is read for a while longer: closing it with bytes unread would reset it, and the client lose the answer.
        """
        self._refused = True
        if self.cycle is not None and not self.cycle.response_complete:
            if self.cycle is not self._answering or self.cycle.response_started or not self.cycle.more_body:
                self.transport.close()  # an answer is under way
                return
            _tell_of_hangup(self.cycle)  # it waits for a body that cannot be read
        body = problems.openai_body(Problem(status, INVALID_REQUEST, code, message))
        head = (
            f"content-type: application/json\r\ncontent-length: {len(body)}\r\n"
            f"x-request-id: {secrets.token_hex(16)}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(STATUS_LINE[status] + head.encode() + body)
        self.transport.write_eof()
        self._progressed()
        self._late = self.loop.call_later(LINGER_S, self.transport.close)

    def _expect_progress(self) -> None:
        if self._late is None:
            self._late = self.loop.call_later(self.head_timeout_s, self.transport.close)

    def _progressed(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None


def _tell_of_hangup(cycle: RequestResponseCycle) -> None:
    if not cycle.response_complete:
        cycle.disconnected = True
        cycle.message_event.set()


def bounded(*, max_head_bytes: int, head_timeout_s: float, write_timeout_s: float) -> type[BoundedProtocol]:
    """The protocol class with these limits; uvicorn makes the instances.

    ``write_timeout_s`` is how long a client may take nothing of what waits for it.
    """
    limits = {"max_head_bytes": max_head_bytes, "head_timeout_s": head_timeout_s, "write_timeout_s": write_timeout_s}
    return type("BoundedProtocol", (BoundedProtocol,), limits)
