"""Whose request it is: keys checked by the registry, answers kept for a short while."""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from edge_gateway.metrics import AUTHENTICATIONS
from edge_gateway.patience import Patience
from edge_gateway.settings import is_loopback
from omniroute.registry.v1 import registry_pb2
from service_kit.errors import Reason, ServiceError

KNOWN_S, WRONG_S, ANONYMOUS_S = 5.0, 5.0, 2.0
# While the registry is away, whoever it let in stays let in this long.
STALE_S = 900.0
MAX_KEPT = 10_000
MAX_SECRET = 512

INFERENCE = "inference"
NO_KEY_GIVEN = "No API key was given. Send it as: Authorization: Bearer <key>"
WRONG_KEY = "The API key is not valid: unknown, disabled or expired."
EDGE_REFUSED = "the registry refuses this gateway; check OMNIROUTE_EDGE_TOKEN"
NO_KEYS_YET = (
    "This gateway listens beyond this machine and no API key exists yet, so nobody can be served. "
    "Make a key with `omnictl keys create`, or set OMNIROUTE_EDGE_HOST=127.0.0.1."
)

Authenticate = Callable[[str], Awaitable[registry_pb2.AuthenticateResponse]]


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks. ``api_key_id`` is empty for an anonymous caller."""

    api_key_id: str = ""
    scopes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the registry said of one secret, by the monotonic clock: asked again from ``fresh_until`` on."""

    caller: Caller | None
    required: bool
    fresh_until: float
    kept_until: float


class Gate:
    """Answers who a request is from, or refuses it.

    ``loopback_only`` says that nobody outside this machine can connect: only then may a caller be anonymous. A caller
    who was known before waits ``patience_s`` at most for the registry to say it again, and not at all once
    ``patience`` with the decision service, where the registry is, is lost.
    ``clock`` is monotonic, ``wall`` is Unix time, both in seconds.
    """

    def __init__(
        self,
        authenticate: Authenticate,
        *,
        loopback_only: bool,
        patience: Patience,
        patience_s: float,
        clock: Callable[[], float],
        wall: Callable[[], float],
    ) -> None:
        self._authenticate = authenticate
        self._loopback_only = loopback_only
        self._patience = patience
        self._patience_s = patience_s
        self._clock = clock
        self._wall = wall
        self._kept: OrderedDict[bytes, Verdict] = OrderedDict()
        self._asking: dict[bytes, asyncio.Task[Verdict]] = {}
        self._slow = False  # the registry let a caller wait in vain, and has not answered since

    async def admit(self, headers: Mapping[str, str], scope: str = INFERENCE) -> Caller:
        """The caller, who holds ``scope``. Raises ServiceError: UNAUTHENTICATED, FORBIDDEN, UNAVAILABLE."""
        secret = presented(headers)
        caller = await self._caller(secret)
        if caller is None:
            return self._anonymous(headers)
        if scope not in caller.scopes:
            raise ServiceError(Reason.FORBIDDEN, f"This API key lacks the scope {scope}.")
        return caller

    def forget(self) -> None:
        """Ask the registry about everybody anew: keys were changed."""
        self._kept.clear()
        self._asking.clear()  # what is on its way may be from before the change

    async def keys_exist(self) -> bool:
        """Whether requests without a key are refused."""
        return (await self._verdict("")).required

    async def standing(self) -> str:
        """``ok``, or why no caller can be checked."""
        try:
            await self.keys_exist()
        except ServiceError as error:
            return EDGE_REFUSED if error.message == EDGE_REFUSED else error.reason.value.lower()
        return "ok"

    async def _caller(self, secret: str) -> Caller | None:
        """None for an anonymous caller that the registry lets in."""
        if secret and len(secret) <= MAX_SECRET:
            verdict = await self._verdict(secret)
            if verdict.caller is not None:
                return verdict.caller
        if await self.keys_exist():
            raise ServiceError(Reason.UNAUTHENTICATED, WRONG_KEY if secret else NO_KEY_GIVEN)
        return None

    def _anonymous(self, headers: Mapping[str, str]) -> Caller:
        if not self._loopback_only:
            raise ServiceError(Reason.UNAUTHENTICATED, NO_KEYS_YET)
        if is_foreign(headers.get("origin", "")):
            message = "A web page of another site may not use this gateway without an API key."
            raise ServiceError(Reason.FORBIDDEN, message)
        return Caller()

    async def _verdict(self, secret: str) -> Verdict:
        """From the registry or from memory; requests that wait for the same answer share one call."""
        digest = hashlib.sha256(secret.encode("utf-8", "replace")).digest()
        kept = self._kept.get(digest)
        if kept is not None and self._clock() < kept.fresh_until:
            self._kept.move_to_end(digest)
            AUTHENTICATIONS.labels("cached").inc()
            return kept
        task = self._asking.get(digest)
        if task is None:
            task = self._asking[digest] = asyncio.create_task(self._ask(secret))
            task.add_done_callback(lambda done: self._settle(digest, done))
        if kept is None or self._clock() >= kept.kept_until:
            return await asyncio.shield(task)
        return await self._or_kept(task, kept)

    async def _or_kept(self, task: asyncio.Task[Verdict], kept: Verdict) -> Verdict:
        """The new verdict; what was said before while the registry is away, or slow to say it again."""
        try:
            async with asyncio.timeout(0 if self._slow or self._patience.is_lost else self._patience_s):
                verdict = await asyncio.shield(task)
        except TimeoutError:
            self._slow = True
        except ServiceError as error:
            if error.reason is not Reason.UNAVAILABLE:
                raise
        else:
            self._slow = False
            return verdict
        AUTHENTICATIONS.labels("stale").inc()
        return kept

    def _settle(self, digest: bytes, task: asyncio.Task[Verdict]) -> None:
        if self._asking.get(digest) is not task:
            return
        del self._asking[digest]
        if not task.cancelled() and task.exception() is None:
            self._slow = False
            self._kept[digest] = task.result()
            self._kept.move_to_end(digest)
            if len(self._kept) > MAX_KEPT:
                self._kept.popitem(last=False)

    async def _ask(self, secret: str) -> Verdict:
        AUTHENTICATIONS.labels("fresh").inc()
        try:
            response = await self._authenticate(secret)
        except ServiceError as error:
            if error.reason is Reason.FORBIDDEN:
                raise ServiceError(Reason.UNAVAILABLE, EDGE_REFUSED) from None
            if error.reason is not Reason.UNAUTHENTICATED:
                raise
            response = registry_pb2.AuthenticateResponse(required=True)
        now = self._clock()
        if not response.HasField("key"):
            if response.required:
                keep_s = WRONG_S if secret else ANONYMOUS_S
                return Verdict(None, True, now + keep_s, now + keep_s)
            return Verdict(None, False, now + ANONYMOUS_S, now + STALE_S)
        caller = Caller(response.key.id, tuple(response.key.scopes) or (INFERENCE,))
        left_s = self._time_left(response.key)
        return Verdict(caller, True, now + min(KNOWN_S, left_s), now + min(STALE_S, left_s))

    def _time_left(self, key: registry_pb2.ApiKey) -> float:
        """Seconds until the key expires."""
        return key.expires_at.ToNanoseconds() / 1e9 - self._wall() if key.HasField("expires_at") else STALE_S


def presented(headers: Mapping[str, str]) -> str:
    """The secret in Authorization or, for clients that know no other place, in x-api-key; empty when there is none."""
    given = headers.get("authorization", "").strip()
    scheme, _, secret = given.partition(" ")
    if scheme.lower() != "bearer":
        secret = given
    return secret.strip() or headers.get("x-api-key", "").strip()


def is_foreign(origin: str) -> bool:
    """Whether a browser sent this for a page that is not from this machine.

    A page may post to a loopback address without asking, and could so spend the owner's money.
    """
    if origin in ("", "null"):
        return bool(origin)
    try:
        parts = urlsplit(origin)
    except ValueError:
        return True
    return parts.scheme in ("http", "https") and not is_loopback(parts.hostname or "")
