"""One request and its answer, as the gateway sees them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

from starlette.types import Message, Scope, Send

from edge_gateway import problems
from edge_gateway.headers import REQUEST_ID, Pairs
from edge_gateway.metrics import FIRST_CHUNK_SECONDS
from edge_gateway.problems import Problem, Render

KEY = "omniroute.exchange"
HUNG_UP = 499


@dataclass(slots=True)
class Exchange:
    """What becomes known of a request while it is served; the access log reads it at the end.

    ``headers`` go out with whatever answer is started, be it an error. ``started_at`` is read from ``clock``.
    """

    request_id: str
    started_at: float
    clock: Callable[[], float]
    send: Send
    headers: Pairs = field(default_factory=list)
    render: Render = problems.openai_body
    client_request_id: str = ""
    model: str = ""
    stream: bool = False
    decision_id: str = ""
    degraded: bool = False
    provider: str = ""
    attempts: int = 0
    outcome: str = "ok"
    status: int = 0
    bytes_out: int = 0
    started: bool = False

    @property
    def elapsed_s(self) -> float:
        return self.clock() - self.started_at

    async def forward(self, message: Message) -> None:
        """The ASGI ``send`` of this request."""
        if message["type"] == "http.response.start":
            self.started = True
            self.status = message["status"]
            message["headers"] = [*message.get("headers", ()), (REQUEST_ID, self.request_id.encode()), *self.headers]
            FIRST_CHUNK_SECONDS.observe(self.elapsed_s)
        else:
            self.bytes_out += len(message.get("body", b""))
        await self.send(message)

    async def start(self, status: int, headers: Pairs) -> None:
        await self.forward({"type": "http.response.start", "status": status, "headers": headers})

    async def write(self, body: bytes, more: bool = True) -> None:
        await self.forward({"type": "http.response.body", "body": body, "more_body": more})

    async def refuse(self, problem: Problem) -> None:
        """Answer with a problem, when nothing has been answered yet."""
        self.outcome = problem.code
        if not self.started:
            body = self.render(problem)
            await self.start(problem.status, [*problems.headers(problem), (b"content-length", b"%d" % len(body))])
            await self.write(body, more=False)


def of_scope(scope: Scope) -> Exchange:
    return cast(Exchange, scope[KEY])
