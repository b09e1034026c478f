"""The HTTP dialects in which a completion may be asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import orjson

from edge_gateway import problems
from edge_gateway.dialects import chat, chat_fields, embeddings, messages, messages_fields, responses, responses_fields
from edge_gateway.dialects.asked import Asked
from edge_gateway.json_body import Json
from edge_gateway.problems import Problem
from omniroute.decision.v1 import decision_pb2
from omniroute.executor.v1 import executor_pb2


@dataclass(frozen=True, slots=True)
class Surface:
    """What one dialect knows, and the flow of a completion does not.

    ``check`` raises ServiceError for a field that is wrong. One of ``end_markers`` begins the line that ends a stream.
    ``stream_error`` takes the problem and how many events went out before it. ``client_headers`` go on to providers
    that speak the same dialect.
    """

    dialect: executor_pb2.ClientDialect.ValueType
    operation: decision_pb2.Operation.ValueType
    check: Callable[[Json], None]
    read: Callable[[Json], Asked]
    end_markers: tuple[bytes, ...]
    stream_error: Callable[[Problem, int], bytes]
    client_headers: tuple[str, ...] = ()


def openai_stream_error(problem: Problem, events: int) -> bytes:
    return b"data: " + problems.openai_body(problem) + b"\n\n"


def responses_stream_error(problem: Problem, events: int) -> bytes:
    """The event `error` as it is documented, and with the object that makes OpenAI's own clients raise it."""
    told = {"code": problem.code, "message": problem.message, "param": problem.param}
    error = {"type": "error", "sequence_number": events, **told, "error": {"type": problem.type, **told}}
    return b"event: error\ndata: " + orjson.dumps(error) + b"\n\n"


def anthropic_stream_error(problem: Problem, events: int) -> bytes:
    return b"event: error\ndata: " + problems.anthropic_body(problem) + b"\n\n"


CHAT = Surface(
    dialect=executor_pb2.CLIENT_DIALECT_OPENAI_CHAT,
    operation=decision_pb2.OPERATION_CHAT,
    check=chat_fields.check,
    read=chat.read,
    end_markers=(b"data: [DONE]",),
    stream_error=openai_stream_error,
)
RESPONSES = Surface(
    dialect=executor_pb2.CLIENT_DIALECT_OPENAI_RESPONSES,
    operation=decision_pb2.OPERATION_CHAT,
    check=responses_fields.check,
    read=responses.read,
    end_markers=(b"event: response.completed", b"event: response.incomplete"),
    stream_error=responses_stream_error,
)
MESSAGES = Surface(
    dialect=executor_pb2.CLIENT_DIALECT_ANTHROPIC_MESSAGES,
    operation=decision_pb2.OPERATION_CHAT,
    check=messages_fields.check,
    read=messages.read,
    end_markers=(b"event: message_stop",),
    stream_error=anthropic_stream_error,
    client_headers=("anthropic-beta", "anthropic-version"),
)
EMBEDDINGS = Surface(
    dialect=executor_pb2.CLIENT_DIALECT_OPENAI_CHAT,
    operation=decision_pb2.OPERATION_EMBEDDINGS,
    check=embeddings.check,
    read=embeddings.read,
    end_markers=(),
    stream_error=openai_stream_error,
)
