"""DecisionService: translate in, ask the engine, translate out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import aclosing
from itertools import islice
from typing import Any

import orjson
from sqlalchemy.exc import SQLAlchemyError

from decision_service import wire
from decision_service.engine import Engine, Receipt
from decision_service.history import History
from decision_service.kernel.decide import scope_of
from decision_service.kernel.eligible import unreachable
from decision_service.kernel.model import Outcome, Refused
from decision_service.nadir import EXPLAINED
from decision_service.names import NameIndex, with_near
from decision_service.scenario.write import write_scenario
from decision_service.servicers.deciding import Advise, Deciding, nobody
from decision_service.servicers.overtaking import as_ready
from decision_service.servicers.saving import BUSY, SAVE_TIMEOUT_S, saved
from omniroute.decision.v1 import decision_pb2 as pb
from omniroute.decision.v1 import decision_pb2_grpc
from service_kit.errors import Reason, ServiceError, invalid

Context = Any
Written = Callable[[str], Iterable[Mapping[str, Any]]]
MOST_OUTCOMES = 1_000
MOST_WAITING = 64
PAGE, LARGEST_PAGE = 50, 1_000


class DecisionServicer(decision_pb2_grpc.DecisionServiceServicer):
    """The decision methods. Those that only read or change memory are plain functions."""

    def __init__(
        self,
        engine: Engine,
        targets: Callable[[], wire.Targets],
        names: Callable[[], NameIndex],
        written: Written = lambda _name: (),
        advise: Advise = nobody,
    ) -> None:
        """``written`` gives a stored combo and those that it refers to, as an operator writes them.

        ``advise`` asks the remote router.
        """
        self._engine = engine
        self._targets = targets
        self._names = names
        self._written = written
        self.history = History()
        self._deciding = Deciding(engine, targets, self.history, advise)

    async def Decide(self, request: pb.DecideRequest, context: Context) -> pb.DecideResponse:
        try:
            answer = self._deciding.answer(request, context)
            return await answer if isinstance(answer, asyncio.Task) else answer
        except ServiceError as error:
            told = self._with_near_names(error, request.model)
            self.history.refused(wire.error_out(told), request, self._engine.now())
            raise told from None

    def _with_near_names(self, error: ServiceError, model: str) -> ServiceError:
        if error.reason is Reason.MODEL_NOT_FOUND:
            error.message = with_near(error.message, self._names().near(model))
        return error

    async def DecideStream(
        self, requests: AsyncIterator[pb.DecideStreamRequest], context: Context
    ) -> AsyncIterator[pb.DecideStreamResponse]:
        def answer(message: pb.DecideStreamRequest) -> pb.DecideStreamResponse | asyncio.Task[pb.DecideStreamResponse]:
            return self._streamed(message.request, context)

        async with aclosing(as_ready(requests, answer, MOST_WAITING)) as responses:
            async for response in responses:
                yield response

    def _streamed(
        self, request: pb.DecideRequest, context: Context
    ) -> pb.DecideStreamResponse | asyncio.Task[pb.DecideStreamResponse]:
        try:
            if not request.request_id:
                raise invalid("request.request_id", "nothing", "an id of 1 to 128 characters on a stream")
            answer = self._deciding.answer(request, context)
        except ServiceError as error:
            return self._stream_error(request, error)
        if isinstance(answer, asyncio.Task):
            later = asyncio.create_task(self._streamed_later(request, answer))
            later.add_done_callback(lambda _: answer.cancel())  # also when it is cancelled before it begins
            return later
        return pb.DecideStreamResponse(request_id=request.request_id, response=answer)

    async def _streamed_later(
        self, request: pb.DecideRequest, answer: asyncio.Task[pb.DecideResponse]
    ) -> pb.DecideStreamResponse:
        try:
            return pb.DecideStreamResponse(request_id=request.request_id, response=await answer)
        except ServiceError as error:
            return self._stream_error(request, error)

    def _stream_error(self, request: pb.DecideRequest, error: ServiceError) -> pb.DecideStreamResponse:
        told = wire.error_out(self._with_near_names(error, request.model))
        self.history.refused(told, request, self._engine.now())
        return pb.DecideStreamResponse(request_id=request.request_id, error=told)

    async def Report(self, request: pb.ReportRequest, context: Context) -> pb.ReportResponse:
        if len(request.outcomes) > MOST_OUTCOMES:
            raise invalid("outcomes", f"{len(request.outcomes)} outcomes", f"at most {MOST_OUTCOMES}")
        if not self._engine.has_room(len(request.outcomes)):
            raise BUSY
        response = pb.ReportResponse()
        receipt = self._receive(request, response)
        if receipt.strangers:
            await self._receive_strangers(receipt)
        unsettled = self._engine.unsettled(receipt)
        await self._saved(receipt)
        if unsettled:
            raise BUSY
        response.accepted, response.duplicates = receipt.accepted, receipt.duplicates
        for index, refused in receipt.rejected:
            response.rejected.add(index=index, field=refused.field, message=refused.message)
        return response

    def _receive(self, request: pb.ReportRequest, response: pb.ReportResponse) -> Receipt:
        """Folds what is well formed; the rest is answered as rejected."""
        now = self._engine.now()
        outcomes: list[tuple[int, Outcome]] = []
        for index, outcome in enumerate(request.outcomes):
            try:
                outcomes.append((index, wire.outcome_in(outcome, now)))
            except ServiceError as error:
                response.rejected.add(index=index, field=error.field, message=error.message)
        receipt = self._engine.receive(outcomes)
        for index, row in zip(receipt.taken, receipt.rows, strict=True):
            outcome = request.outcomes[index]
            outcome.cost_usd = row.cost_usd  # computed where the caller left it to us
            self.history.reported(outcome)
        return receipt

    async def _receive_strangers(self, receipt: Receipt) -> None:
        pairs = [(outcome.decision_id, outcome.attempt) for outcome in receipt.strangers]
        try:
            async with asyncio.timeout(SAVE_TIMEOUT_S):
                known = await asyncio.to_thread(self._engine.journal.known, pairs)
        except (SQLAlchemyError, TimeoutError):  # what was folded is saved; the rest is to be sent again
            self._engine.forget_strangers(receipt)
            await self._saved(receipt)
            raise BUSY from None
        self._engine.receive_strangers(receipt, known)

    async def _saved(self, receipt: Receipt) -> None:
        """Waits until everything reported so far is on disk: duplicates may repeat what is not there yet."""
        if receipt.rows or receipt.duplicates:
            await saved(lambda: self._engine.save(receipt.rows))

    def Explain(self, request: pb.ExplainRequest, context: Context) -> pb.ExplainResponse:
        asked = wire.request_in(request.request)
        seed = request.request.seed if request.request.HasField("seed") else None
        try:
            decision = self._engine.explain(asked, seed, EXPLAINED)
        except ServiceError as error:
            return pb.ExplainResponse(error=wire.error_out(self._with_near_names(error, request.request.model)))
        version = self._engine.state.seq
        response = pb.ExplainResponse(decision=wire.decision_out(decision, "", version, self._targets(), True))
        if request.include_scenario:
            scenario = write_scenario(decision, self._written(decision.combo.name))
            response.scenario = orjson.dumps(scenario, option=orjson.OPT_INDENT_2).decode()
        return response

    def ListCandidates(self, request: pb.ListCandidatesRequest, context: Context) -> pb.ListCandidatesResponse:
        if not request.model:
            raise invalid("model", "nothing", "a model string")
        state, now = self._engine.state, self._engine.tick()
        try:
            combo = state.combo(request.model)
        except Refused as refused:
            raise self._with_near_names(self._engine.refusal(refused), request.model) from None
        pool = state.pool(combo, request.model, request.api_key_id)
        scope = scope_of(combo, pool, request.api_key_id)
        views = [
            wire.candidate_view_out(member, pool.rejected.get(member.id) or unreachable(member, scope, state, now), now)
            for member in pool.every
        ]
        return pb.ListCandidatesResponse(combo=combo.name, candidates=views)

    def GetDecision(self, request: pb.GetDecisionRequest, context: Context) -> pb.GetDecisionResponse:
        record = self.history.get(request.decision_id)
        if record is None:
            raise ServiceError(
                Reason.NOT_FOUND, f"decision_id: {request.decision_id!r} is no recent decision", field="decision_id"
            )
        return pb.GetDecisionResponse(record=record)

    def ListDecisions(self, request: pb.ListDecisionsRequest, context: Context) -> pb.ListDecisionsResponse:
        size = request.page_size or PAGE
        if not 1 <= size <= LARGEST_PAGE:
            raise invalid("page_size", str(size), f"1 to {LARGEST_PAGE}, or 0 for {PAGE}")
        found = self.history.newest(request.combo, request.api_key_id, request.page_token)
        records = list(islice(found, size + 1))
        more = records[size - 1].decision.decision_id if len(records) > size else ""
        return pb.ListDecisionsResponse(records=records[:size], next_page_token=more)

    async def WatchDecisions(
        self, request: pb.WatchDecisionsRequest, context: Context
    ) -> AsyncIterator[pb.WatchDecisionsResponse]:
        if self.history.crowded:
            raise ServiceError(Reason.UNAVAILABLE, "too many watchers", retry_after_ms=10_000)
        async for record in self.history.watch(request.combo, request.api_key_id):
            yield pb.WatchDecisionsResponse(record=record)
