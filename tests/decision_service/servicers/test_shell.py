"""What stands around the servicers: health, reflection, ids."""

from __future__ import annotations

from typing import Any

import grpc
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from omniroute.decision.v1 import decision_pb2
from omniroute.registry.v1 import registry_pb2
from tests.decision_service.client import LIMIT_S, Client, refused

SERVICES = [
    service.full_name
    for file in (decision_pb2.DESCRIPTOR, registry_pb2.DESCRIPTOR)
    for service in file.services_by_name.values()
]


async def test_every_service_is_healthy(service: Client) -> None:
    health: Any = health_pb2_grpc.HealthStub(service.channel)
    for name in ("", *SERVICES):
        answer = await health.Check(health_pb2.HealthCheckRequest(service=name), timeout=LIMIT_S)
        assert answer.status == health_pb2.HealthCheckResponse.SERVING, name
    told = await refused(health.Check(health_pb2.HealthCheckRequest(service="nobody"), timeout=LIMIT_S))
    assert told.code is grpc.StatusCode.NOT_FOUND


async def test_every_service_can_be_found_by_reflection(service: Client) -> None:
    channel: Any = service.channel
    reflection: Any = reflection_pb2_grpc.ServerReflectionStub(channel)
    asked = [
        reflection_pb2.ServerReflectionRequest(list_services=""),
        *(reflection_pb2.ServerReflectionRequest(file_containing_symbol=name) for name in SERVICES),
    ]
    answers = [answer async for answer in reflection.ServerReflectionInfo(iter(asked), timeout=LIMIT_S)]
    listed = {found.name for found in answers[0].list_services_response.service}
    assert set(SERVICES) <= listed
    for name, answer in zip(SERVICES, answers[1:], strict=True):
        files = [FileDescriptorProto.FromString(each) for each in answer.file_descriptor_response.file_descriptor_proto]
        assert name in {f"{file.package}.{found.name}" for file in files for found in file.service}


async def test_a_request_id_comes_back_and_a_missing_one_is_made(service: Client) -> None:
    request = decision_pb2.GetDecisionRequest(decision_id="dec_nobody")
    for given in ("mine-1", ""):
        metadata = (("x-request-id", given),) if given else ()
        call = service.decisions.GetDecision(request, timeout=LIMIT_S, metadata=metadata)
        await refused(call)
        answered = dict(await call.trailing_metadata())["x-request-id"]
        assert answered == given if given else len(answered) >= 8


def raw(service: Client, method: str, message: bytes) -> Any:
    """A call of DecisionService with a message of any bytes."""
    call: Any = service.channel.unary_unary(f"/omniroute.decision.v1.DecisionService/{method}")
    return call(message, timeout=LIMIT_S)


async def test_an_unknown_method_is_unimplemented(service: Client) -> None:
    assert (await refused(raw(service, "Guess", b""))).code is grpc.StatusCode.UNIMPLEMENTED


async def test_a_message_that_cannot_be_read_is_an_error_of_that_call_alone(service: Client) -> None:
    model = await service.add_target("ant")
    told = await refused(raw(service, "Decide", b"\xff\xff"))
    assert told.code in (grpc.StatusCode.INTERNAL, grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.UNKNOWN)
    assert "Traceback" not in told.message
    assert (await service.decide(model)).decision_id
