"""Requests at once with one API key: no key takes all that the edge can serve."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from edge_gateway import metrics
from service_kit.errors import Reason, ServiceError

RETRY_MS = 1_000


class KeyTurns:
    """At most ``most`` for each key; callers without a key share no limit but the edge's own."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._inside: Counter[str] = Counter()

    @contextmanager
    def taken(self, api_key_id: str) -> Iterator[None]:
        """Count a request while it lasts. Raises ServiceError RATE_LIMIT_EXCEEDED when the key has no turn left."""
        if not api_key_id:
            yield
            return
        if self._inside[api_key_id] >= self._most:
            metrics.REFUSED_BUSY_KEY.inc()
            message = f"This API key has {self._most} requests under way, as many as it may have at once."
            raise ServiceError(Reason.RATE_LIMIT_EXCEEDED, message, retry_after_ms=RETRY_MS)
        self._inside[api_key_id] += 1
        try:
            yield
        finally:
            self._inside[api_key_id] -= 1
            if not self._inside[api_key_id]:
                del self._inside[api_key_id]
