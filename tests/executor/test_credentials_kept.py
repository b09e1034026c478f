"""Credentials while the registry is away: what is kept, for how long, and what nobody waits for."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest

from executor.credentials import MAX_AGE_S, PATIENCE_S, RENEWED_AT, STALE_S, Away, Credentials, Resolved, Unusable

SECRET, REFERENCE, NONE = Resolved(secret="sk-1"), Resolved(reference="env:KEY"), Resolved()
SENT = [(SECRET, "sk-1"), (REFERENCE, "from-env"), (NONE, "")]


@dataclass
class Registry:
    """Says ``answer`` or fails with it; while ``speaks`` is not set it says nothing."""

    answer: Resolved | Exception
    asked: int = 0
    speaks: asyncio.Event = field(default_factory=asyncio.Event)
    now: float = 100.0

    def __post_init__(self) -> None:
        self.speaks.set()

    async def resolve(self, connection_id: str, *, refresh: bool) -> Resolved:
        self.asked += 1
        await self.speaks.wait()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def credentials(self) -> Credentials:
        return Credentials(self, {"KEY": "from-env"}, lambda: self.now)


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.mark.parametrize(("resolved", "sent"), SENT)
async def test_a_renewal_is_waited_for_by_nobody(resolved: Resolved, sent: str) -> None:
    registry = Registry(resolved)
    kept = registry.credentials()
    await kept.secret("c")
    registry.now += RENEWED_AT * MAX_AGE_S
    registry.speaks.clear()
    for _ in range(3):
        async with asyncio.timeout(PATIENCE_S / 2):
            assert await kept.secret("c") == sent
    await settle()
    assert registry.asked == 2, "one question at a time"
    registry.speaks.set()
    await settle()
    registry.answer = Away()
    registry.now += MAX_AGE_S - 1
    assert await kept.secret("c") == sent, "its life begins with the renewal"


async def test_a_secret_is_kept_for_a_minute_and_no_longer() -> None:
    registry = Registry(SECRET)
    kept = registry.credentials()
    await kept.secret("c")
    registry.answer = Away()
    registry.now += MAX_AGE_S - 0.1
    assert await kept.secret("c") == "sk-1"
    registry.now += 0.1
    with pytest.raises(Away):
        await kept.secret("c")


@pytest.mark.parametrize(("resolved", "sent"), SENT[1:])
async def test_what_holds_no_secret_serves_while_the_registry_is_away(resolved: Resolved, sent: str) -> None:
    registry = Registry(resolved)
    kept = registry.credentials()
    await kept.secret("c")
    registry.answer = Away()
    registry.now += STALE_S - 1
    assert await kept.secret("c") == sent
    registry.now += 1
    with pytest.raises(Away):
        await kept.secret("c")


async def test_a_silent_registry_is_waited_for_once() -> None:
    registry = Registry(REFERENCE)
    kept = registry.credentials()
    await kept.secret("c")
    registry.now += MAX_AGE_S
    registry.speaks.clear()
    loop = asyncio.get_running_loop()
    took = []
    for _ in range(3):
        began = loop.time()
        assert await kept.secret("c") == "from-env"
        took.append(loop.time() - began)
    assert took[0] >= PATIENCE_S
    assert max(took[1:]) < PATIENCE_S / 2
    registry.speaks.set()
    await settle()
    registry.answer = SECRET
    registry.now += MAX_AGE_S
    assert await kept.secret("c") == "sk-1", "it answers again, and is waited for again"


@pytest.mark.parametrize("resolved", [SECRET, REFERENCE])
async def test_a_connection_that_lost_its_credential_is_not_used_on(resolved: Resolved) -> None:
    registry = Registry(resolved)
    kept = registry.credentials()
    await kept.secret("c")
    registry.answer = Unusable()
    registry.now += RENEWED_AT * MAX_AGE_S
    await kept.secret("c")
    await settle()
    with pytest.raises(Unusable):
        await kept.secret("c")
