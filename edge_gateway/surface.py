"""The HTTP dialects in which a completion may be asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from edge_gateway import chat_fields, features, problems
from edge_gateway.json_body import Json
from edge_gateway.problems import Problem, Render
from omniroute.decision.v1 import decision_pb2
from omniroute.executor.v1 import executor_pb2


@dataclass(frozen=True, slots=True)
class Surface:
    """What one dialect knows, and the flow of a completion does not.

    ``check`` raises ServiceError for a field that is wrong. ``features`` takes the body and the client's task type,
    ``session`` the API key's id and the body. ``end_marker`` begins the line that ends a stream, empty when none does.
    """

    dialect: executor_pb2.ClientDialect.ValueType
    operation: decision_pb2.Operation.ValueType
    check: Callable[[Json], None]
    features: Callable[[Json, str], decision_pb2.RequestFeatures]
    session: Callable[[str, Json], str]
    end_marker: bytes
    render: Render
    stream_error: Callable[[Problem], bytes]


def openai_stream_error(problem: Problem) -> bytes:
    return b"data: " + problems.openai_body(problem) + b"\n\n"


CHAT = Surface(
    dialect=executor_pb2.CLIENT_DIALECT_OPENAI_CHAT,
    operation=decision_pb2.OPERATION_CHAT,
    check=chat_fields.check,
    features=features.of_chat,
    session=features.session_id,
    end_marker=b"data: [DONE]",
    render=problems.openai_body,
    stream_error=openai_stream_error,
)
