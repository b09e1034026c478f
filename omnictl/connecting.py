"""The way to the decision service: settings, one channel a command, and its refusals in words for people."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeVar

import grpc
import grpc.aio

from omnictl.options import Remote
from omnictl.problems import CommandError, wrong_usage
from omnictl.settings import environment
from service_kit import addresses, calls, settings, tls
from service_kit.errors import Reason, ServiceError, from_rpc_error
from service_kit.grpc_client import Balancing, open_channel

Q = TypeVar("Q")
A = TypeVar("A")
PAGE_SIZE = 1_000
TIMEOUT_S = 10.0
DETAILS = "grpc-status-details-bin"
WHOLE_SECONDS_FROM_MS = 10_000

ADVICE: Mapping[Reason, str] = MappingProxyType(
    {
        Reason.UNAUTHENTICATED: "give the admin token in OMNIROUTE_ADMIN_TOKEN",
        Reason.FORBIDDEN: "give the admin token in OMNIROUTE_ADMIN_TOKEN",
        Reason.MODEL_NOT_FOUND: "`omnictl connections list` shows what is connected",
        Reason.NO_AVAILABLE_TARGET: "`omnictl candidates MODEL` shows what stops each candidate",
        Reason.POLICY_EXCLUDES_ALL: "`omnictl candidates MODEL` shows what stops each candidate",
    }
)


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """What the environment says of the service; each field is the variable ``OMNIROUTE_<FIELD>``."""

    decision_address: str = field(default="127.0.0.1:50051", metadata=addresses.ADDRESS)
    admin_token: str = field(default="", metadata={"secret": True})
    tls_cert: str = ""
    tls_key: str = ""
    tls_ca: str = ""


class Unreachable(CommandError):
    """No answer came; a later one may."""


class Service:
    """An open channel. Calls are answered or raise CommandError; stubs are made over ``channel``."""

    def __init__(self, runner: asyncio.Runner, channel: grpc.aio.Channel, address: str, token: str, limit_s: float):
        self.channel = channel
        self._runner = runner
        self._address = address
        self._limit_s = limit_s
        self._request_id = f"omnictl-{secrets.token_hex(6)}"
        self._metadata = calls.metadata(token=token, request_id=self._request_id)

    def ask(self, method: grpc.aio.UnaryUnaryMultiCallable[Q, A], request: Q) -> A:
        """One call."""
        return self._runner.run(self._answer(method, request))

    def pages(self, method: grpc.aio.UnaryUnaryMultiCallable[Any, Any], request: Any, rows: str) -> list[Any]:
        """The field ``rows`` of every page of a list."""
        found: list[Any] = []
        request.page_size = PAGE_SIZE
        while True:
            answer = self.ask(method, request)
            found.extend(getattr(answer, rows))
            if answer.next_page_token in ("", request.page_token):
                return found
            request.page_token = answer.next_page_token

    async def _answer(self, method: grpc.aio.UnaryUnaryMultiCallable[Q, A], request: Q) -> A:
        try:
            return await method(request, timeout=self._limit_s, metadata=self._metadata)
        except grpc.aio.AioRpcError as error:
            raise self._problem(error) from None

    def _problem(self, error: grpc.aio.AioRpcError) -> CommandError:
        if any(key == DETAILS for key, _ in error.trailing_metadata() or ()):
            return refusal(from_rpc_error(error))
        if error.code() is grpc.StatusCode.UNAVAILABLE:
            return Unreachable(
                f"no decision service answers at {self._address}",
                "is `make run` running? --address or OMNIROUTE_DECISION_ADDRESS say where it is",
            )
        if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
            return Unreachable(f"no answer from {self._address} within {self._limit_s:g} s", "--timeout allows more")
        said = error.details() or "no details"
        return CommandError(
            f"{self._address} answered {error.code().name}: {said}", f"its log has request id {self._request_id}"
        )


def refusal(error: ServiceError) -> CommandError:
    """A refusal as a command's error: the field where the message does not name it, the wait, and what may help."""
    named = error.message if error.field in error.message else f"{error.field}: {error.message}"
    wait = "" if error.retry_after_ms is None else f"; try again in {duration(error.retry_after_ms)}"
    return CommandError(f"{named}{wait}", ADVICE.get(error.reason, ""))


def duration(ms: int) -> str:
    """Milliseconds as a person says them."""
    if ms < WHOLE_SECONDS_FROM_MS:
        return f"{ms / 1000:g} s"
    minutes, seconds = divmod(round(ms / 1000), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = ((days, "d"), (hours, "h"), (minutes, "min"), (seconds, "s"))
    return " ".join([f"{number} {unit}" for number, unit in parts if number][:2])


@contextmanager
def connect(remote: Remote) -> Iterator[Service]:
    """The service that the options and the environment name. Raises CommandError when these are wrong."""
    try:
        known = settings.read(ClientSettings, environment())
        files = tls.from_paths(
            remote.tls_cert or known.tls_cert, remote.tls_key or known.tls_key, remote.tls_ca or known.tls_ca
        )
        address = _known_form(remote.address) if remote.address else known.decision_address
        with asyncio.Runner() as runner:
            token = _sendable(remote.token or known.admin_token)
            channel = runner.run(_open(address, files))
            try:
                yield Service(runner, channel, address, token, remote.timeout or TIMEOUT_S)
            finally:
                runner.run(channel.close())
    except settings.SettingsError as error:
        raise CommandError(str(error)) from None


def _known_form(address: str) -> str:
    if addresses.is_address(address):
        return address
    raise wrong_usage(f"--address: got {address!r}; allowed: {addresses.ALLOWED}")


def _sendable(token: str) -> str:
    """Metadata carries printable ASCII alone."""
    if token.isascii() and (token.isprintable() or not token):
        return token
    got = f"a secret of {len(token)} characters, some of them no printable ASCII"
    raise wrong_usage(f"admin token: got {got}; allowed: printable ASCII")


async def _open(address: str, files: tls.TlsFiles | None) -> grpc.aio.Channel:
    return open_channel(address, files, balancing=Balancing.IN_ORDER)
