"""The decision service's methods by name, and calls of them in an operator's name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from google.protobuf import message_factory
from google.protobuf.descriptor import FileDescriptor, ServiceDescriptor
from google.protobuf.message import Message

from edge_gateway.admin.words import in_json_words
from omniroute.decision.v1 import decision_pb2
from omniroute.registry.v1 import registry_pb2
from service_kit.errors import ServiceError

Send = Callable[[str, Message, type[Message]], Awaitable[Message]]

FILES: tuple[FileDescriptor, ...] = (registry_pb2.DESCRIPTOR, decision_pb2.DESCRIPTOR)


@dataclass(frozen=True, slots=True)
class Method:
    """``path`` is the method's name on the wire."""

    path: str
    request: type[Message]
    answer: type[Message]


def method(service: str, name: str) -> Method:
    """A unary method of the contract. Raises KeyError when there is none of that name."""
    found = _service(service).methods_by_name[name]
    return Method(
        f"/{found.containing_service.full_name}/{name}",
        message_factory.GetMessageClass(found.input_type),
        message_factory.GetMessageClass(found.output_type),
    )


def _service(name: str) -> ServiceDescriptor:
    return {each: found for file in FILES for each, found in file.services_by_name.items()}[name]


class Remote:
    """Calls whose refusals name fields as the JSON does."""

    def __init__(self, send: Send) -> None:
        self._send = send

    async def call(self, called: Method, request: Message, renamed: Mapping[str, str] | None = None) -> Any:
        """The answer, an instance of ``called.answer``. Raises ServiceError."""
        try:
            return await self._send(called.path, request, called.answer)
        except ServiceError as error:
            raise in_json_words(error, renamed or {}) from None
