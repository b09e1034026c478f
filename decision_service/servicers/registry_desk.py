"""Who may call the registry, and where its work runs."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import Any, ParamSpec, Protocol, TypeVar

import structlog
from prometheus_client import Counter, Gauge
from sqlalchemy.exc import SQLAlchemyError

from decision_service.vault import VaultError
from service_kit.calls import TOKEN
from service_kit.errors import Reason, ServiceError
from service_kit.metrics import REGISTRY

P = ParamSpec("P")
T = TypeVar("T")
THREADS = 4
MOST_WAITING = 256
LOG = structlog.get_logger()

WAITING = Gauge("omniroute_registry_waiting", "Registry calls that run or wait for a thread.", registry=REGISTRY)
REFUSED = Counter("omniroute_registry_refused", "Registry calls refused because too many waited.", registry=REGISTRY)


class Call(Protocol):
    """What is read of a gRPC context."""

    def invocation_metadata(self) -> Any: ...


@dataclass(frozen=True, slots=True)
class Tokens:
    """The secrets by which callers are told apart. No admin token: everybody may administer. Others: nobody may."""

    admin: str = field(default="", repr=False)
    edge: str = field(default="", repr=False)
    executor: str = field(default="", repr=False)


class Desk:
    """Lets callers in by their token, and runs blocking work on a few threads."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="registry")
        self._waiting = 0

    async def administer(self, context: Call, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run an operator's work. Raises FORBIDDEN, UNAVAILABLE, and what the work raises."""
        self.admit_admin(context)
        return await self.run(work, *args, **kwargs)

    def admit_admin(self, context: Call) -> None:
        """Raises FORBIDDEN unless the admin token is presented, or none is set."""
        if self._tokens.admin and not _presents(context, self._tokens.admin):
            raise ServiceError(Reason.FORBIDDEN, "the admin token is needed")

    def admit_reader(self, context: Call) -> None:
        """Raises FORBIDDEN unless the caller may administer or is the edge."""
        if not self._tokens.edge or not _presents(context, self._tokens.edge):
            self.admit_admin(context)

    def admit_edge(self, context: Call) -> None:
        """Raises FORBIDDEN unless the caller is the edge."""
        if not self._tokens.edge or not _presents(context, self._tokens.edge):
            raise ServiceError(Reason.FORBIDDEN, "only the edge may ask this")

    def admit_executor(self, context: Call) -> None:
        """Raises FORBIDDEN unless the caller is the executor."""
        if not self._tokens.executor or not _presents(context, self._tokens.executor):
            raise ServiceError(Reason.FORBIDDEN, "only the executor may ask this")

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run blocking work. Raises UNAVAILABLE when too many calls wait or the store does not answer."""
        if self._waiting >= MOST_WAITING:
            REFUSED.inc()
            raise ServiceError(Reason.UNAVAILABLE, "too many registry calls wait", retry_after_ms=1_000)
        self._waiting += 1
        WAITING.set(self._waiting)
        context = copy_context()
        try:
            call = asyncio.get_running_loop().run_in_executor(self._threads, lambda: context.run(work, *args, **kwargs))
            return await call
        except SQLAlchemyError as error:
            LOG.error("store_failed", error=type(error).__name__, reason=str(getattr(error, "orig", None))[:200])
            raise ServiceError(Reason.UNAVAILABLE, "the store did not answer", retry_after_ms=1_000) from None
        except VaultError as error:
            LOG.error("vault_failed", reason=str(error))
            raise ServiceError(Reason.UNAVAILABLE, str(error)) from None
        finally:
            self._waiting -= 1
            WAITING.set(self._waiting)

    def close(self) -> None:
        """Let running work end, start none."""
        self._threads.shutdown(wait=True, cancel_futures=True)


def _presents(context: Call, token: str) -> bool:
    """Each value is compared in constant time."""
    given = [value for key, value in context.invocation_metadata() or () if key == TOKEN]
    return any(hmac.compare_digest(_bytes(value), token.encode()) for value in given)


def _bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value
