"""Protobuf to the executor's values and back, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import orjson
from google.protobuf.timestamp_pb2 import Timestamp

from executor.clients import CLIENTS
from executor.model import (
    Attempt,
    Call,
    Chunk,
    ClientDialect,
    Done,
    Event,
    Head,
    Operation,
    QuotaWindow,
    Report,
    Summary,
)
from omniroute.decision.v1 import decision_pb2
from omniroute.executor.v1 import executor_pb2
from service_kit.errors import invalid

DEFAULT_DEADLINE_MS = 600_000
REASONING_FIELDS = ("thinking", "reasoning")

_REQUEST_ID = re.compile(r"[!-~]{1,128}")
_CLIENT_DIALECTS: Mapping[int, ClientDialect] = MappingProxyType(
    {
        executor_pb2.CLIENT_DIALECT_UNSPECIFIED: ClientDialect.OPENAI_CHAT,
        executor_pb2.CLIENT_DIALECT_OPENAI_CHAT: ClientDialect.OPENAI_CHAT,
        executor_pb2.CLIENT_DIALECT_OPENAI_RESPONSES: ClientDialect.OPENAI_RESPONSES,
        executor_pb2.CLIENT_DIALECT_ANTHROPIC_MESSAGES: ClientDialect.ANTHROPIC_MESSAGES,
    }
)
MAX_HEADER = 4_096
_HEADER_VALUE = re.compile(rf"[ -~]{{1,{MAX_HEADER}}}")


def call_in(request: executor_pb2.ExecuteRequest, traceparent: str, request_id: str, now: float) -> Call:
    """``request_id`` is used where the request has none of its own; ``now`` is in Unix seconds.

    Raises ServiceError INVALID_FIELD; a field of the client's body is named as the client knows it.
    """
    if not request.decision_id:
        raise invalid("decision_id", "nothing", "the id that Decide answered")
    if request.client_dialect not in _CLIENT_DIALECTS:
        allowed = " | ".join(ClientDialect)
        raise invalid("client_dialect", f"the number {request.client_dialect}", allowed)
    dialect = _CLIENT_DIALECTS[request.client_dialect]
    operation = _operation_in(request, dialect)
    body = _body_in(request.body)
    client = CLIENTS[dialect]
    spoken = client.read(body)
    asks_for_effort = any(body.get(name) is not None for name in REASONING_FIELDS)
    return Call(
        decision_id=request.decision_id,
        body=body if spoken is None else spoken.chat,
        operation=operation,
        request_id=request.request_id if _REQUEST_ID.fullmatch(request.request_id) else request_id,
        traceparent=traceparent,
        effort="" if spoken is not None and asks_for_effort else request.effort,
        client=dialect,
        spoken=spoken,
        created=int(now),
        headers=_headers_in(request, client.headers),
    )


def _operation_in(request: executor_pb2.ExecuteRequest, dialect: ClientDialect) -> Operation:
    if request.operation != decision_pb2.OPERATION_EMBEDDINGS:
        return Operation.CHAT
    if dialect is not ClientDialect.OPENAI_CHAT:
        raise invalid("operation", Operation.EMBEDDINGS, f"{Operation.CHAT} with client_dialect {dialect}")
    return Operation.EMBEDDINGS


def _body_in(raw: bytes) -> dict[str, Any]:
    try:
        body = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise invalid("body", f"{len(raw)} bytes that are no JSON ({error})", "a JSON object") from error
    if not isinstance(body, dict):
        raise invalid("body", f"a JSON {type(body).__name__}", "a JSON object")
    return body


def _headers_in(request: executor_pb2.ExecuteRequest, wanted: frozenset[str]) -> tuple[tuple[str, str], ...]:
    """Of the client's headers those that its dialect knows; a value that no header may carry is left out."""
    given = ((header.name.lower(), header.value.strip()) for header in request.client_headers)
    return tuple((name, value) for name, value in given if name in wanted and _HEADER_VALUE.fullmatch(value))


def event_out(event: Event, decision_id: str) -> executor_pb2.ExecuteResponse:
    match event:
        case Chunk(data):
            return executor_pb2.ExecuteResponse(chunk=executor_pb2.Chunk(data=data))
        case Head():
            return executor_pb2.ExecuteResponse(head=_head_out(event))
        case Report():
            return executor_pb2.ExecuteResponse(outcome=_outcome_out(event, event.decision_id or decision_id))
        case Summary(text):
            return executor_pb2.ExecuteResponse(hand_off=executor_pb2.HandOffSummary(summary=text))
        case Done():
            return executor_pb2.ExecuteResponse(done=_done_out(event))


def batch_out(events: list[executor_pb2.ExecuteResponse]) -> executor_pb2.ExecuteResponse:
    return executor_pb2.ExecuteResponse(batch=executor_pb2.Batch(events=events))


def _head_out(head: Head) -> executor_pb2.Head:
    target = head.target
    return executor_pb2.Head(
        status=head.status,
        headers=[executor_pb2.Header(name=name, value=value) for name, value in head.headers],
        provider=target.provider if target else "",
        model=target.model if target else "",
        connection_id=target.connection_id if target else "",
        attempts=head.attempts,
        cost_usd=head.cost_usd,
        error_code=head.error_code,
    )


def _outcome_out(report: Report, decision_id: str) -> decision_pb2.Outcome:
    attempt, target, failure = report.attempt, report.attempt.target, report.attempt.failure
    return decision_pb2.Outcome(
        decision_id=decision_id,
        attempt=attempt.number,
        target_id=target.target_id,
        provider=target.provider,
        model=target.model,
        connection_id=target.connection_id,
        outcome_class=_class_out(attempt),
        http_status=attempt.http_status,
        latency_ms=attempt.latency_ms,
        ttft_ms=attempt.ttft_ms,
        input_tokens=attempt.usage.input,
        output_tokens=attempt.usage.output,
        cached_tokens=attempt.usage.cached,
        cost_usd=attempt.cost_usd,
        retry_after_ms=failure.retry_after_ms if failure else None,
        model_scoped=failure.model_scoped if failure else False,
        next_target_id=report.next_target_id,
        finish_reason=attempt.finish_reason,
        final=report.final,
        usage_estimated=attempt.usage.estimated,
        quota=[_window_out(window) for window in attempt.quota],
        at=_instant_out(attempt.ended_at),
    )


def _class_out(attempt: Attempt) -> decision_pb2.OutcomeClass.ValueType:
    return decision_pb2.OutcomeClass.Value(f"OUTCOME_CLASS_{attempt.outcome_class}")


def _window_out(window: QuotaWindow) -> decision_pb2.QuotaWindow:
    return decision_pb2.QuotaWindow(
        name=window.name,
        remaining_fraction=window.remaining_fraction,
        reset_at=None if window.reset_at is None else _instant_out(window.reset_at),
        limit_reached=window.limit_reached,
    )


def _instant_out(seconds: float) -> Timestamp:
    instant = Timestamp()
    instant.FromMicroseconds(round(1_000_000 * seconds))
    return instant


def _done_out(done: Done) -> executor_pb2.Done:
    usage = executor_pb2.Usage(
        input_tokens=done.usage.input,
        output_tokens=done.usage.output,
        cached_tokens=done.usage.cached,
        estimated=done.usage.estimated,
    )
    return executor_pb2.Done(usage=usage, cost_usd=done.cost_usd, attempts=done.attempts)
