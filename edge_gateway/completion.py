"""The flow of a completion: who asks, what they need, who answers, what came of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import grpc
import structlog
from starlette.types import Receive, Scope, Send

from edge_gateway import controls, exchange, features, headers, json_body, problems
from edge_gateway.attempts import Attempts
from edge_gateway.auth import Caller, Gate
from edge_gateway.clients import Execution, Services
from edge_gateway.exchange import Exchange
from edge_gateway.fallback import Decider
from edge_gateway.hangup import ends_at_hangup
from edge_gateway.json_body import BodyLimits, Hangup
from edge_gateway.key_turns import KeyTurns
from edge_gateway.problems import Refused
from edge_gateway.relay import Relay
from edge_gateway.report import OutcomeQueue
from edge_gateway.surface import Surface
from omniroute.decision.v1 import decision_pb2
from omniroute.executor.v1 import executor_pb2
from service_kit.errors import from_rpc_error

# The executor ends a late request itself and says more about it; this is for an executor that does not.
DEADLINE_SLACK_S = 1.0

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class House:
    """What every completion needs. ``request_limit_s`` is for a whole request."""

    services: Services
    decider: Decider
    gate: Gate
    outcomes: OutcomeQueue
    body_limits: BodyLimits
    turns: KeyTurns
    request_limit_s: float
    clock: Callable[[], float]


@dataclass(frozen=True, slots=True)
class Ask:
    """A request that was read and checked. ``waited_s`` is what the check of its caller took."""

    body: bytes
    caller: Caller
    waited_s: float
    request: decision_pb2.DecideRequest
    ignored: tuple[str, ...]
    client_headers: tuple[executor_pb2.Header, ...]


class Completions:
    """The ASGI endpoint of one surface."""

    def __init__(self, house: House, surface: Surface) -> None:
        self._house = house
        self._surface = surface

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        served = exchange.of_scope(scope)
        incoming = headers.incoming(scope)
        began = self._house.clock()
        caller = await self._house.gate.admit(incoming)
        waited_s = self._house.clock() - began
        with self._house.turns.taken(caller.api_key_id):
            ask = await self._read(incoming, caller, waited_s, receive, served)
            await self._serve(ask, receive, served)

    async def _serve(self, ask: Ask, receive: Receive, served: Exchange) -> None:
        decided = await self._house.decider.decide(ask.request, ask.waited_s)
        decision = decided.response
        served.decision_id, served.degraded = decision.decision_id, decided.degraded
        served.headers += headers.of_decision(decision, ask.ignored, degraded=decided.degraded)
        await self._carry_out(ask, decision, receive, served)

    async def _read(
        self, incoming: Mapping[str, str], caller: Caller, waited_s: float, receive: Receive, served: Exchange
    ) -> Ask:
        wanted = controls.read(incoming)
        raw = await json_body.read(receive, incoming, self._house.body_limits)
        body = json_body.parse(raw)
        self._surface.check(body)
        asked = self._surface.read(body)
        served.model, served.stream = body["model"], asked.stream
        request = decision_pb2.DecideRequest(
            request_id=served.request_id,
            model=body["model"],
            api_key_id=caller.api_key_id,
            session_id=wanted.session or features.session_id(caller.api_key_id, asked),
            session_explicit=bool(wanted.session),
            features=features.of(asked, self._surface.operation, wanted.task),
            controls=wanted.routing,
        )
        return Ask(
            raw, caller, waited_s, request, wanted.ignored, headers.named(incoming, self._surface.client_headers)
        )

    async def _carry_out(
        self, ask: Ask, decision: decision_pb2.DecideResponse, receive: Receive, served: Exchange
    ) -> None:
        """Execute the plan. However this ends, the decision's last lease is ended by a reported outcome."""
        attempts = Attempts(decision, ask.caller.api_key_id, self._house.clock)
        relay = Relay(served, attempts, self._house.outcomes, self._surface.end_markers, self._surface.stream_error)
        left_s = max(0.0, self._house.request_limit_s - served.elapsed_s)
        call = self._house.services.execute(self._execution(ask, decision, left_s), left_s + 2 * DEADLINE_SLACK_S)
        ended = decision_pb2.OUTCOME_CLASS_LOCAL_CANCELLED
        try:
            await self._relay(relay, call, receive, left_s)
            if relay.served:
                ended = decision_pb2.OUTCOME_CLASS_SUCCESS
            if relay.finished:
                await relay.learn_the_rest(call)
        except Hangup:
            ended = decision_pb2.OUTCOME_CLASS_CLIENT_CANCELLED
            raise
        finally:
            call.cancel()
            self._house.outcomes.put(attempts.close(ended))

    async def _relay(self, relay: Relay, call: Execution, receive: Receive, left_s: float) -> None:
        try:
            async with asyncio.timeout(left_s + DEADLINE_SLACK_S), ends_at_hangup(receive, call):
                await relay.run(call)
            await relay.finish()
        except TimeoutError:
            await relay.fail(problems.timed_out(round(1000 * self._house.request_limit_s)))
        except Refused as refused:
            await relay.fail(refused.problem)
        except grpc.RpcError as error:
            failure = from_rpc_error(error)
            log.warning("executor failed", reason=failure.reason.value, detail=failure.message)
            await relay.fail(problems.of_error(failure))

    def _execution(self, ask: Ask, decision: decision_pb2.DecideResponse, left_s: float) -> executor_pb2.ExecuteRequest:
        return executor_pb2.ExecuteRequest(
            decision_id=decision.decision_id,
            plan=decision.plan,
            operation=self._surface.operation,
            client_dialect=self._surface.dialect,
            body=ask.body,
            request_id=ask.request.request_id,
            deadline_ms=max(1, round(1000 * left_s)),
            effort=decision.effort,
            client_headers=ask.client_headers,
            batches=True,
        )
