"""From a request to an answer: at once, or after a remote router was asked."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import grpc.aio

from decision_service import wire
from decision_service.engine import Engine
from decision_service.history import History
from decision_service.kernel.decide import Decision
from decision_service.kernel.model import Advice, Request
from decision_service.nadir import Question, question_of
from decision_service.repeats import Answer, Repeats
from omniroute.decision.v1 import decision_pb2 as pb

Context = Any
Advise = Callable[[Question, float | None], Awaitable[Advice]]


async def nobody(_question: Question, _remaining_s: float | None) -> Advice:
    """No remote router can be asked."""
    return Advice(failure="not asked")


class Deciding:
    """Makes decisions take effect. ``advise`` asks the remote router, with the seconds that the caller has left."""

    def __init__(
        self, engine: Engine, targets: Callable[[], wire.Targets], history: History, advise: Advise = nobody
    ) -> None:
        self._engine = engine
        self._targets = targets
        self._history = history
        self._advise = advise
        self._repeats = Repeats()

    def answer(self, request: pb.DecideRequest, context: Context) -> Answer:
        """The answer, or the task that waits for it. Both raise ServiceError."""
        if not request.request_id:
            return self._decided(request, context)
        wire.named("request_id", request.request_id, wire.MAX_ID)
        caller, now = _caller(context), self._engine.now()
        answer = self._repeats.find(caller, request, now)
        if answer is None:
            answer = self._decided(request, context)
            self._repeats.keep(caller, request, answer, now)
        elif isinstance(answer, asyncio.Task):
            answer = asyncio.create_task(self._answered_after(answer, request, context))
        return answer

    async def _answered_after(
        self, first: asyncio.Task[pb.DecideResponse], request: pb.DecideRequest, context: Context
    ) -> pb.DecideResponse:
        """What the same request got that came first; decided anew if that came to nothing."""
        await asyncio.wait({first})
        answer = self.answer(request, context)
        return await answer if isinstance(answer, asyncio.Task) else answer

    def _decided(self, request: pb.DecideRequest, context: Context) -> Answer:
        asked = wire.request_in(request)
        decision_id, decision = self._engine.decide(asked, request.seed if request.HasField("seed") else None)
        question = question_of(decision)
        if question is None:
            return self._effected(request, decision_id, decision)
        remaining_s = context.time_remaining()
        return asyncio.create_task(self._advised(question, remaining_s, request, asked, decision.turn.seed))

    async def _advised(
        self, question: Question, remaining_s: float | None, request: pb.DecideRequest, asked: Request, seed: int
    ) -> pb.DecideResponse:
        """Decided with what the remote router says, in the state of then; nothing has taken effect before."""
        advice = await self._advise(question, remaining_s)
        return self._effected(request, *self._engine.decide(asked, seed, advice))

    def _effected(self, request: pb.DecideRequest, decision_id: str, decision: Decision) -> pb.DecideResponse:
        engine = self._engine
        version = engine.state.seq
        response = wire.decision_out(decision, decision_id, version, self._targets(), request.include_trace)
        engine.commit(decision_id, decision)
        self._history.decided(response, request, decision.turn.now)
        return response


def _caller(context: Context) -> str:
    """Who calls: the peer's certificate where there is one."""
    identities = context.peer_identities() if isinstance(context, grpc.aio.ServicerContext) else None
    return ",".join(identity.decode(errors="replace") for identity in identities or ())
