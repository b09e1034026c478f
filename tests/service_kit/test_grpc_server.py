"""What the server adds around servicers, seen by a client over loopback."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeAlias, cast

import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from omniroute.decision.v1 import decision_pb2, decision_pb2_grpc
from service_kit import calls, metrics
from service_kit.errors import Reason, ServiceError, from_rpc_error
from service_kit.grpc_client import open_channel
from service_kit.grpc_server import start_server
from service_kit.lifecycle import Fatal
from tests.service_kit.servicer import ERRORS, SECRET, SERVICE, calling, obliging, serving

Stub: TypeAlias = "decision_pb2_grpc.DecisionServiceAsyncStub"
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def decide(model: str) -> decision_pb2.DecideRequest:
    return decision_pb2.DecideRequest(model=model)


async def _unary(stub: Stub, model: str) -> None:
    await stub.Decide(decide(model), timeout=5)


async def _plain(stub: Stub, model: str) -> None:
    await stub.Explain(decision_pb2.ExplainRequest(request=decide(model)), timeout=5)


async def _watch(stub: Stub, model: str) -> None:
    async for _ in stub.WatchDecisions(decision_pb2.WatchDecisionsRequest(combo=model), timeout=5):
        pass


async def _stream(stub: Stub, model: str) -> None:
    call = stub.DecideStream(timeout=5)
    if model:  # a client that still writes when the refusal comes may see its own failed write instead
        await call.write(decision_pb2.DecideStreamRequest(request=decide(model)))
    async for _ in call:
        await call.done_writing()


KINDS = {"Decide": _unary, "Explain": _plain, "WatchDecisions": _watch, "DecideStream": _stream}


async def refused(method: str, model: str) -> grpc.aio.AioRpcError:
    async with serving() as server, calling(server.port) as stub:
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await KINDS[method](stub, model)
        return error.value


@pytest.mark.parametrize("method", KINDS)
async def test_every_kind_of_method_answers(method: str) -> None:
    async with serving() as server, calling(server.port) as stub:
        await KINDS[method](stub, "auto")


@pytest.mark.parametrize("method", KINDS)
async def test_a_refusal_keeps_code_reason_and_field(method: str) -> None:
    error = await refused(method, "invalid")
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    read = from_rpc_error(error)
    assert (read.reason, read.field) == (Reason.INVALID_FIELD, "model")
    assert read.message == "model: got an empty text; allowed: 1 to 256 characters"


@pytest.mark.parametrize("method", KINDS)
async def test_a_refusal_keeps_its_retry_time(method: str) -> None:
    error = await refused(method, "limited")
    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    read = from_rpc_error(error)
    assert (read.reason, read.retry_after_ms, read.http_status) == (Reason.NO_AVAILABLE_TARGET, 1500, 429)


@pytest.mark.parametrize("method", KINDS)
async def test_an_unexpected_error_tells_the_caller_nothing(
    method: str, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    error = await refused(method, "unexpected")
    assert (error.code(), error.details()) == (grpc.StatusCode.INTERNAL, "internal error")
    assert SECRET not in repr(error)
    assert from_rpc_error(error).reason is Reason.INTERNAL
    captured = capsys.readouterr()
    assert "unexpected error" in captured.out + captured.err + caplog.text


@pytest.mark.parametrize("method", ["Decide", "WatchDecisions", "DecideStream"])
async def test_a_servicers_own_abort_stays_as_it_is(method: str) -> None:
    error = await refused(method, "abort")
    assert (error.code(), error.details()) == (grpc.StatusCode.OUT_OF_RANGE, "too far")


@pytest.mark.parametrize("method", KINDS)
async def test_a_method_that_is_not_written_is_unimplemented(method: str) -> None:
    unwritten: Any = decision_pb2_grpc.DecisionServiceServicer
    async with serving(unwritten()) as server, calling(server.port) as stub:
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await KINDS[method](stub, "")
    assert error.value.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_an_unknown_status_reads_by_its_code() -> None:
    async with serving() as server, calling(server.port) as stub:
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await stub.Decide(decide("wait"), timeout=0.1)
    assert from_rpc_error(error.value).reason is Reason.UNAVAILABLE


async def test_a_callers_request_id_comes_back_and_is_the_tasks_own() -> None:
    async with serving() as server, calling(server.port) as stub:
        call = stub.Decide(decide("auto"), metadata=((calls.REQUEST_ID, "r-1"), (calls.TRACEPARENT, TRACE)))
        answer = await call
        trailing = dict(await call.trailing_metadata())
    assert (answer.decision_id, answer.reason) == ("r-1", TRACE)
    assert trailing[calls.REQUEST_ID] == "r-1"


async def test_a_stream_has_the_request_id_at_its_start() -> None:
    async with serving() as server, calling(server.port) as stub:
        call = stub.WatchDecisions(decision_pb2.WatchDecisionsRequest(), metadata=((calls.REQUEST_ID, "r-2"),))
        assert dict(await call.initial_metadata())[calls.REQUEST_ID] == "r-2"


@pytest.mark.parametrize("given", ["", "with space", "x" * 129])
async def test_a_missing_or_malformed_request_id_is_made_anew(given: str) -> None:
    async with serving() as server, calling(server.port) as stub:
        ids = {
            (await stub.Decide(decide("auto"), metadata=((calls.REQUEST_ID, given),) if given else ())).decision_id
            for _ in range(3)
        }
    assert len(ids) == 3
    assert given not in ids


async def test_a_refusal_carries_the_request_id_too() -> None:
    async with serving() as server, calling(server.port) as stub:
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await stub.Decide(decide("invalid"), metadata=((calls.REQUEST_ID, "r-3"),))
    assert dict(error.value.trailing_metadata())[calls.REQUEST_ID] == "r-3"


def test_outgoing_metadata_passes_the_current_call_on() -> None:
    token = calls.CURRENT.set(calls.CallContext("r-4", TRACE))
    try:
        passed = calls.metadata(token="t")
    finally:
        calls.CURRENT.reset(token)
    assert passed == ((calls.REQUEST_ID, "r-4"), (calls.TRACEPARENT, TRACE), (calls.TOKEN, "t"))
    assert calls.metadata() == ()


def counted(method: str, code: str) -> float:
    labels = {"method": f"{SERVICE}/{method}", "code": code}
    return metrics.REGISTRY.get_sample_value("omniroute_grpc_server_calls_total", labels) or 0.0


def timed(method: str) -> float:
    labels = {"method": f"{SERVICE}/{method}"}
    return metrics.REGISTRY.get_sample_value("omniroute_grpc_server_seconds_count", labels) or 0.0


@pytest.mark.parametrize(
    ("model", "code"),
    [("auto", "OK"), ("invalid", "INVALID_ARGUMENT"), ("abort", "OUT_OF_RANGE"), ("unexpected", "INTERNAL")],
)
@pytest.mark.parametrize("method", ["Decide", "WatchDecisions", "DecideStream"])
async def test_calls_are_counted_by_method_and_code(method: str, model: str, code: str) -> None:
    before, timed_before = counted(method, code), timed(method)
    async with serving() as server, calling(server.port) as stub:
        try:
            await KINDS[method](stub, model)
        except grpc.aio.AioRpcError:
            assert code != "OK"
        async with asyncio.timeout(5):  # the caller may hear of the end before the server has counted it
            while timed(method) == timed_before:
                await asyncio.sleep(0.01)
    assert (counted(method, code), timed(method)) == (before + 1, timed_before + 1)


@pytest.mark.parametrize("method", ["Decide", "WatchDecisions"])
async def test_a_caller_that_leaves_cancels_the_method(method: str) -> None:
    servicer = obliging()
    before = counted(method, "CANCELLED")
    async with serving(servicer) as server, calling(server.port) as stub:
        calling_task = asyncio.create_task(KINDS[method](stub, "wait"))
        await asyncio.wait_for(servicer.waiting.wait(), 5)
        calling_task.cancel()
        await asyncio.wait_for(servicer.cancelled.wait(), 5)
    assert counted(method, "CANCELLED") == before + 1


async def health_of(port: int, service: str) -> int:
    async with open_channel(f"127.0.0.1:{port}") as channel:
        health: Any = health_pb2_grpc.HealthStub(channel)
        answer = await health.Check(health_pb2.HealthCheckRequest(service=service), timeout=5)
        return int(answer.status)


async def test_health_tells_of_the_process_and_its_services() -> None:
    async with serving() as server:
        assert await health_of(server.port, "") == health_pb2.HealthCheckResponse.SERVING
        assert await health_of(server.port, SERVICE) == health_pb2.HealthCheckResponse.SERVING
        await server.health.set(SERVICE, health_pb2.HealthCheckResponse.NOT_SERVING)
        assert await health_of(server.port, SERVICE) == health_pb2.HealthCheckResponse.NOT_SERVING
    assert metrics.REGISTRY.get_sample_value(
        "omniroute_grpc_server_calls_total", {"method": "grpc.health.v1.Health/Check", "code": "OK"}
    ) is None  # fmt: skip


async def test_reflection_lists_the_services() -> None:
    async def asked() -> AsyncIterator[reflection_pb2.ServerReflectionRequest]:
        yield reflection_pb2.ServerReflectionRequest(list_services="")

    async with serving() as server, open_channel(f"127.0.0.1:{server.port}") as channel:
        stub = reflection_pb2_grpc.ServerReflectionStub(cast(Any, channel))
        async for answer in cast(Any, stub).ServerReflectionInfo(asked(), timeout=5):
            names = {service.name for service in answer.list_services_response.service}
    assert {SERVICE, "grpc.health.v1.Health"} <= names


async def test_stop_drains_calls_in_flight_and_then_cuts_them_off() -> None:
    servicer = obliging()
    async with serving(servicer) as server, calling(server.port) as stub:
        watching = stub.WatchDecisions(decision_pb2.WatchDecisionsRequest(combo="wait"))
        assert await watching.read()
        await asyncio.wait_for(servicer.waiting.wait(), 5)
        started = asyncio.get_running_loop().time()
        await server.stop(0.3)
        assert 0.2 < asyncio.get_running_loop().time() - started < 5
        with pytest.raises(grpc.aio.AioRpcError):
            await watching.read()


async def test_a_taken_port_is_an_error() -> None:
    async with serving() as server:
        with pytest.raises(Fatal, match=f"cannot listen on 127.0.0.1:{server.port}"):
            await start_server(f"127.0.0.1:{server.port}", lambda _: None, [])


async def test_a_message_above_the_limit_is_refused() -> None:
    async with serving(max_message_bytes=1_000) as server, calling(server.port) as stub:
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await stub.Decide(decide("x" * 2_000), timeout=5)
    assert error.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_an_old_connection_is_renewed_without_a_failed_call() -> None:
    async with serving(max_connection_age_s=0.2) as server, calling(server.port) as stub:
        for _ in range(12):
            await stub.Decide(decide("auto"), timeout=5)
            await asyncio.sleep(0.05)


@pytest.mark.parametrize(("combo", "reason"), [("invalid", Reason.INVALID_FIELD), ("unexpected", Reason.INTERNAL)])
async def test_a_method_may_write_its_stream_instead_of_yielding_it(combo: str, reason: Reason) -> None:
    class Writing(decision_pb2_grpc.DecisionServiceServicer):
        async def WatchDecisions(self, request: Any, context: Any) -> None:  # type: ignore[override]
            await context.write(decision_pb2.WatchDecisionsResponse())
            if request.combo:
                raise ERRORS[request.combo]

    writing: Any = Writing
    async with serving(writing()) as server, calling(server.port) as stub:
        request = decision_pb2.WatchDecisionsRequest
        call = stub.WatchDecisions(request(), metadata=((calls.REQUEST_ID, "r-3"),))
        assert len([response async for response in call]) == 1
        assert dict(await call.trailing_metadata())[calls.REQUEST_ID] == "r-3"
        broken = stub.WatchDecisions(request(combo=combo))
        assert await broken.read() == decision_pb2.WatchDecisionsResponse()
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await broken.read()
    assert from_rpc_error(error.value).reason is reason
    assert SECRET not in str(error.value)


async def test_a_call_of_many_requests_and_one_answer_is_observed_too() -> None:
    async def collect(requests: AsyncIterator[bytes], context: Any) -> bytes:
        joined = b"".join([request async for request in requests])
        if not joined:
            raise ServiceError(Reason.NOT_FOUND, "nothing came")
        return joined

    def register(server: grpc.aio.Server) -> None:
        handler: Any = grpc.stream_unary_rpc_method_handler(collect)
        server.add_registered_method_handlers("test.Service", {"Collect": handler})

    server = await start_server("127.0.0.1:0", register, [])
    async with open_channel(f"127.0.0.1:{server.port}") as channel:
        method: Any = channel.stream_unary("/test.Service/Collect")
        assert await method(iter([b"a", b"b"]), timeout=5) == b"ab"
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await method(iter([]), timeout=5)
    await server.stop(0)
    assert error.value.code() is grpc.StatusCode.NOT_FOUND


@pytest.mark.parametrize("method", ["Decide", "WatchDecisions", "DecideStream"])
async def test_bytes_that_are_no_message_are_refused_like_any_bad_field(method: str) -> None:
    async with serving() as server, open_channel(f"127.0.0.1:{server.port}") as channel:
        path = f"/{SERVICE}/{method}"
        nonsense = b"\xff" * 10
        calls_by_method: dict[str, Callable[[], Awaitable[Any]]] = {
            "Decide": lambda: channel.unary_unary(path, bytes)(nonsense, timeout=5),
            "WatchDecisions": lambda: channel.unary_stream(path, bytes)(nonsense, timeout=5).read(),
            "DecideStream": lambda: channel.stream_stream(path, bytes)(_one(nonsense), timeout=5).read(),
        }
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await calls_by_method[method]()
    assert error.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    told = from_rpc_error(error.value)
    assert (told.reason, told.field) == (Reason.INVALID_FIELD, "request")
    assert "class" not in told.message


async def _one(message: bytes) -> AsyncIterator[bytes]:
    yield message
