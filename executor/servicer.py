"""ExecutorService: translate in, carry the plan out, translate each event out."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from executor import shapes, telemetry, wire
from executor.attempt import Means
from executor.chain import Run
from executor.execution import execute
from executor.model import Call, Operation, Shape
from executor.outlet import Context, Outlet
from executor.plan import Plan
from executor.plan_wire import plan_in
from omniroute.executor.v1 import executor_pb2_grpc
from omniroute.executor.v1.executor_pb2 import ExecuteRequest
from service_kit import calls
from service_kit.errors import Reason, ServiceError, invalid

# Of a call with a deadline of its own: the outcomes must be out before it ends.
DEADLINE_MARGIN_S = 0.1
LAST_WRITES_S = 2.0  # after the deadline, for a caller that reads slowly
BUSY_RETRY_MS = 1_000

log = structlog.get_logger()


class ExecutorServicer(executor_pb2_grpc.ExecutorServiceServicer):
    """At most ``max_executions`` at once; after ``refuse`` none any more."""

    def __init__(self, means: Means, max_executions: int) -> None:
        self._means = means
        self._max = max_executions
        self._running = 0
        self._is_refusing = False

    def refuse(self) -> None:
        self._is_refusing = True

    # Events go out by `write`, so that a cancelled call is cancelled inside the attempt, wherever it stands.
    async def Execute(self, request: ExecuteRequest, context: Context) -> None:  # type: ignore[override]
        plan = plan_in(request.plan)
        identity = calls.CURRENT.get()
        call = wire.call_in(request, identity.traceparent, identity.request_id, self._means.wall())
        _check(call, plan)
        deadline = _deadline(request.deadline_ms, context.time_remaining())
        sink = Outlet(context, call.decision_id, batches=request.batches).send
        run = Run(self._means, call, deadline, sink, shapes.carry)
        told = {"decision_id": call.decision_id, "shape": plan.shape.value}
        with self._admitted():
            try:
                async with asyncio.timeout_at(deadline + LAST_WRITES_S):
                    await execute(run, plan)
            except TimeoutError as error:
                raise ServiceError(Reason.UNAVAILABLE, "the caller takes no more events") from error
            except asyncio.CancelledError:
                log.info("client hung up", **told, status=499, ended_attempts=len(run.tally.ended))
                raise
        log.info("executed", **told, attempts=len(run.tally.ended), outcome=_outcome(run))

    @contextmanager
    def _admitted(self) -> Iterator[None]:
        if self._is_refusing:
            telemetry.REFUSED.labels("shutting_down").inc()
            raise ServiceError(Reason.UNAVAILABLE, "the executor is shutting down", retry_after_ms=BUSY_RETRY_MS)
        if self._running >= self._max:
            telemetry.REFUSED.labels("full").inc()
            raise ServiceError(Reason.UNAVAILABLE, "the executor is full", retry_after_ms=BUSY_RETRY_MS)
        self._running += 1
        telemetry.EXECUTIONS.inc()
        try:
            yield
        finally:
            self._running -= 1
            telemetry.EXECUTIONS.dec()


def _check(call: Call, plan: Plan) -> None:
    """Raises ServiceError INVALID_FIELD for a body of which the plan's calls cannot be made."""
    if plan.shape is Shape.SINGLE:
        return
    if call.operation is not Operation.CHAT:
        raise invalid("operation", call.operation, f"{Operation.CHAT} with a plan of shape {plan.shape}")
    if not isinstance(call.body.get("messages"), list) or not call.body["messages"]:
        raise invalid("body.messages", "no list with something in it", "a list of messages")


def _deadline(asked_ms: int, call_remaining_s: float | None) -> float:
    """On the loop's clock: what the request asks for, and a little before the call's own deadline."""
    left_s = (asked_ms or wire.DEFAULT_DEADLINE_MS) / 1000
    if call_remaining_s is not None:
        left_s = min(left_s, max(call_remaining_s - DEADLINE_MARGIN_S, 0.9 * call_remaining_s))
    return asyncio.get_running_loop().time() + left_s


def _outcome(run: Run) -> str:
    return run.tally.ended[-1].outcome_class.value if run.tally.ended else "NONE"
