"""OAuth access tokens: renewed here, in the one place that can keep a rotated refresh token."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import httpx
import structlog
from prometheus_client import Counter

from decision_service import credentials
from decision_service.credentials import Credential, OAuth
from decision_service.registry.registry import Registry, get
from decision_service.store.records import CONNECTIONS, ConnectionRecord
from service_kit.errors import Reason, ServiceError
from service_kit.metrics import REGISTRY

EARLY_MS = 60_000
"""Tokens with less than this left are renewed."""
NEW_ENOUGH_MS = 30_000
"""A token younger than this is not renewed again because one call was refused."""
TIMEOUT_S = 10.0
LOG = structlog.get_logger()

RENEWALS = Counter(
    "omniroute_oauth_renewals", "OAuth tokens renewed, by what came of it.", ["result"], registry=REGISTRY
)


class Renewals:
    """Hands out access tokens that are good for a while. One renewal a connection at a time."""

    def __init__(self, registry: Registry, client: httpx.AsyncClient) -> None:
        self._registry = registry
        self._client = client
        self._locks: dict[str, asyncio.Lock] = {}

    async def current(self, connection_id: str, *, refused: bool) -> OAuth:
        """The tokens of a connection, renewed when they are about to end or when the last one was ``refused``.

        Raises ServiceError UNAVAILABLE when they have ended and cannot be renewed; NOT_FOUND; VaultError.
        """
        async with self._locks.setdefault(connection_id, asyncio.Lock()):
            record, held = self._held(connection_id)
            if not held.refresh_token or not self._is_due(record, held, refused):
                return held
            try:
                renewed = await self._renew(held)
            except (httpx.HTTPError, ValueError) as error:
                return await self._without(connection_id, held, error)
            await asyncio.to_thread(self._keep, connection_id, renewed)
            RENEWALS.labels("done").inc()
            return renewed

    def _held(self, connection_id: str) -> tuple[ConnectionRecord, OAuth]:
        record = get(self._registry.snapshot.stored.of(CONNECTIONS), CONNECTIONS.kind, (connection_id,))
        held = credentials.opened(record, self._registry.vault).oauth
        if held is None:
            raise ServiceError(Reason.NOT_FOUND, f"connection {connection_id!r} has no OAuth credential")
        return record, held

    def _is_due(self, record: ConnectionRecord, held: OAuth, refused: bool) -> bool:
        now = self._registry.now()
        if not held.access_token or (held.expires_at is not None and held.expires_at - now < EARLY_MS):
            return True
        return refused and now - record.updated_at > NEW_ENOUGH_MS

    async def _renew(self, held: OAuth) -> OAuth:
        """Raises httpx.HTTPError and ValueError."""
        form = {
            "grant_type": "refresh_token",
            "refresh_token": held.refresh_token,
            "client_id": held.client_id,
            "client_secret": held.client_secret,
            "scope": held.scope,
        }
        filled = {name: value for name, value in form.items() if value}
        answer = await self._client.post(held.token_url, data=filled, timeout=TIMEOUT_S, follow_redirects=False)
        answer.raise_for_status()
        return _read(answer.json(), held, self._registry.now())

    async def _without(self, connection_id: str, held: OAuth, error: Exception) -> OAuth:
        """Another replica may have been first; else the held token, as long as it is good."""
        RENEWALS.labels("failed").inc()
        LOG.warning("oauth_not_renewed", connection=connection_id, error=type(error).__name__, status=_status(error))
        await asyncio.to_thread(self._registry.source.refresh)
        newer = self._held(connection_id)[1]
        if newer != held or (held.access_token and (held.expires_at or 0) > self._registry.now()):
            return newer
        raise ServiceError(Reason.UNAVAILABLE, f"the OAuth token of {connection_id!r} has ended and was not renewed")

    def _keep(self, connection_id: str, renewed: OAuth) -> None:
        with self._registry.change() as change:
            record = change.get(CONNECTIONS, connection_id)
            sealed = credentials.stored(Credential(oauth=renewed), connection_id, self._registry.vault)
            change.put(CONNECTIONS, record, replace(record, **sealed))


def _read(answer: Any, held: OAuth, now: int) -> OAuth:
    token = answer.get("access_token") if isinstance(answer, dict) else None
    if not isinstance(token, str) or not token:
        raise ValueError("no access_token in the answer")
    lifetime, rotated = answer.get("expires_in"), answer.get("refresh_token")
    ends = now + int(lifetime * 1000) if isinstance(lifetime, int | float) and 0 < lifetime < 10**9 else None
    kept = rotated if isinstance(rotated, str) and rotated else held.refresh_token
    renewed = replace(held, access_token=token, refresh_token=kept, expires_at=ends)
    try:
        credentials.check(Credential(oauth=renewed))
    except ServiceError as error:
        raise ValueError(error.message) from None
    return renewed


def _status(error: Exception) -> int:
    return error.response.status_code if isinstance(error, httpx.HTTPStatusError) else 0
