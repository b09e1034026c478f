"""Around every RPC method: the caller's ids in and out, errors to statuses, count and latency."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any, NoReturn

import grpc.aio
import structlog
from google.protobuf.message import DecodeError
from prometheus_client import Counter, Histogram

from service_kit import calls
from service_kit.errors import Reason, ServiceError, invalid, to_status
from service_kit.metrics import REGISTRY

Context = grpc.aio.ServicerContext[Any, Any]
Decode = Callable[[Any], Any]
Identity = tuple[tuple[str, str], ...]

CALLS = Counter("omniroute_grpc_server_calls", "Finished calls.", ("method", "code"), registry=REGISTRY)
SECONDS = Histogram(
    "omniroute_grpc_server_seconds",
    "Duration of calls, streams from start to end.",
    ("method",),
    registry=REGISTRY,
    buckets=(0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5, 10, 60),
)
UNEXPECTED = ServiceError(Reason.INTERNAL, "internal error")

log = structlog.get_logger()


def observed(method: str, handler: grpc.RpcMethodHandler[Any, Any]) -> grpc.RpcMethodHandler[Any, Any]:
    """The handler of ``package.Service/Method`` with all of that around it; the method may be plain or async."""
    meter = Meter(method)
    one, many, encode = _decoder(handler), _decoders(handler), handler.response_serializer
    match handler.request_streaming, handler.response_streaming:
        case False, False:
            return grpc.unary_unary_rpc_method_handler(_unary(meter, handler.unary_unary, one), None, encode)
        case True, False:
            return grpc.stream_unary_rpc_method_handler(_unary(meter, handler.stream_unary, many), None, encode)
        case False, _:
            return grpc.unary_stream_rpc_method_handler(_stream(meter, handler.unary_stream, one), None, encode)
        case _:
            return grpc.stream_stream_rpc_method_handler(_stream(meter, handler.stream_stream, many), None, encode)


def _decoder(handler: grpc.RpcMethodHandler[Any, Any]) -> Decode:
    """Decodes here, not in the server: bytes that are no message are then a refusal like any other."""
    decode = handler.request_deserializer

    def decoded(data: bytes) -> Any:
        if decode is None:
            return data
        try:
            return decode(data)
        except DecodeError:
            raise invalid("request", f"{len(data)} bytes that are no such message", "the method's message") from None

    return decoded


def _decoders(handler: grpc.RpcMethodHandler[Any, Any]) -> Decode:
    decode = _decoder(handler)

    async def decoded(messages: AsyncIterator[bytes]) -> AsyncIterator[Any]:
        async for data in messages:
            yield decode(data)

    return decoded


class Meter:
    """Count and latency of one method; the label children are looked up once."""

    def __init__(self, method: str) -> None:
        self.method = method
        self._observe = SECONDS.labels(method).observe
        self._ok = CALLS.labels(method, grpc.StatusCode.OK.name)

    def ended(self, started: float, code: grpc.StatusCode) -> None:
        child = self._ok if code is grpc.StatusCode.OK else CALLS.labels(self.method, code.name)
        child.inc()
        self._observe(time.perf_counter() - started)


def _unary(meter: Meter, method: Any, decode: Decode) -> Any:
    is_async = inspect.iscoroutinefunction(method)

    async def call(request: Any, context: Context) -> Any:
        started = time.perf_counter()
        code = grpc.StatusCode.OK
        identity = _enter(context)
        try:
            response = method(decode(request), context)
            return await response if is_async else response
        except BaseException as error:  # noqa: BLE001 - the edge of the process
            code = _code_of(error, context)
            await _refuse(error, context, identity, meter)
        finally:
            meter.ended(started, code)

    return call


def _stream(meter: Meter, method: Any, decode: Decode) -> Any:
    """Around an async generator of responses, or a coroutine that writes them itself.

    The head of a generator's stream goes out before its first response, which may be long in coming. Of a coroutine
    nothing goes out before that: until then a client may send the call to another server when this one goes away.
    """
    if inspect.iscoroutinefunction(method):
        return _unary(meter, method, decode)

    async def call(request: Any, context: Context) -> AsyncIterator[Any]:
        started = time.perf_counter()
        code = grpc.StatusCode.OK
        identity = _enter(context)
        try:
            await context.send_initial_metadata(identity)
            async with aclosing(method(decode(request), context)) as responses:
                async for response in responses:
                    yield response
        except BaseException as error:  # noqa: BLE001 - the edge of the process
            code = _code_of(error, context)
            await _refuse(error, context, identity, meter)
        finally:
            meter.ended(started, code)

    return call


def _enter(context: Context) -> Identity:
    """Make the caller's ids those of this task, and the answer carry the request id."""
    call = calls.received(context.invocation_metadata() or ())
    calls.CURRENT.set(call)
    identity = ((calls.REQUEST_ID, call.request_id),)
    context.set_trailing_metadata(identity)
    return identity


def _code_of(error: BaseException, context: Context) -> grpc.StatusCode:
    if isinstance(error, ServiceError):
        return error.grpc_code
    if isinstance(error, grpc.aio.AbortError):
        return context.code()
    if isinstance(error, NotImplementedError):
        return grpc.StatusCode.UNIMPLEMENTED
    if isinstance(error, asyncio.CancelledError | GeneratorExit):
        return grpc.StatusCode.CANCELLED
    return grpc.StatusCode.INTERNAL


async def _refuse(error: BaseException, context: Context, identity: Identity, meter: Meter) -> NoReturn:
    """End the call with the error's status; what no caller may see is logged, and answered without detail."""
    if isinstance(error, grpc.aio.AbortError) or not isinstance(error, Exception):
        raise error
    if isinstance(error, grpc.aio.BaseError) and context.cancelled():
        raise asyncio.CancelledError from error  # the caller left while something was written to it
    if isinstance(error, NotImplementedError):
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, f"{meter.method} is not implemented", identity)
    if not isinstance(error, ServiceError):
        log.error("unexpected error", method=meter.method, exc_info=error)
        error = UNEXPECTED
    status = to_status(error)
    await context.abort(status.code, status.details, (*identity, *status.trailing_metadata))
