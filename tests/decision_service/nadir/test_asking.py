"""One question to Nadir, against a real HTTP server that plays it."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
import structlog

from decision_service.kernel.model import Advice
from decision_service.nadir import StoredKeys, asking
from decision_service.vault import VaultError
from tests.decision_service.nadir.conftest import Ask, Hand, choosing, question
from tests.executor.upstream import Connection, Received, Script, Upstream, answer, close_at_once, hang, head

OUTSIDE = Advice(failure="choice outside the pool")
MALFORMED = Advice(failure="malformed")
SKIPPED = Advice(failure="skipped after a failure")


def root(player: Upstream) -> str:
    return f"http://127.0.0.1:{player.port}"


@pytest.mark.parametrize(
    ("ending", "path"),
    [
        ("", "/v1/bucket"),
        ("/", "/v1/bucket"),
        ("/v1", "/v1/bucket"),
        ("/v1/", "/v1/bucket"),
        ("/v1/v1", "/v1/v1/bucket"),
        ("/gate", "/gate/v1/bucket"),
        ("/gate/v1", "/gate/v1/bucket"),
    ],
)
async def test_the_question(player: Upstream, nadir_at: Ask, ending: str, path: str) -> None:
    asker = nadir_at(root(player) + ending)
    assert await asker.advise(question(prompt="Prüfe das."), None) == Advice("big")
    [asked] = player.requests
    assert asked.path == path
    assert asked.body == {"prompt": "Prüfe das.", "menu": ["small", "big"], "source": "omniroute"}
    assert asked.headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    ("own", "common", "sent"), [("", "", None), ("", "common", "common"), ("own", "common", "own"), ("own", "", "own")]
)
async def test_a_combos_own_key_goes_before_the_services(
    player: Upstream, nadir_at: Ask, own: str, common: str, sent: str | None
) -> None:
    async def key_of(combo: str) -> str:
        return {"mine": own}[combo]

    await nadir_at(root(player), common, key_of).advise(question(), None)
    assert player.requests[0].headers.get("x-api-key") == sent


async def test_a_combos_own_address_goes_before_the_services(player: Upstream, nadir_at: Ask) -> None:
    asker = nadir_at("http://127.0.0.1:9")
    assert (await asker.advise(question(base_url=root(player) + "/v1"), None)).model == "big"


ANSWERS: list[tuple[bytes | dict[str, Any], Advice]] = [
    ({"model": "small"}, Advice("small")),
    ({"selected_model": "small"}, Advice("small")),
    ({"model": "big", "selected_model": "small"}, Advice("big")),
    ({"model": None, "selected_model": "small"}, Advice("small")),
    ({"model": "", "selected_model": "small"}, Advice("small")),
    ({"model": "big", "bucket": "complex", "confidence": 0.91}, Advice("big", bucket="complex", confidence=0.91)),
    ({"model": "big", "bucket": 7, "confidence": "high"}, Advice("big")),
    ({"model": "big", "bucket": "a\nb", "confidence": 1.01}, Advice("big")),
    ({"model": "big", "bucket": "x" * 65, "confidence": True}, Advice("big")),
    ({"model": "big", "bucket": None, "confidence": 0}, Advice("big", confidence=0.0)),
    ({"model": "huge"}, OUTSIDE),
    ({"model": "BIG"}, OUTSIDE),
    ({"model": 7}, MALFORMED),
    ({}, MALFORMED),
    (b"[]", MALFORMED),
    (b"null", MALFORMED),
    (b"", MALFORMED),
    (b"big", MALFORMED),
    (b'{"model": "big"', MALFORMED),
    (b"\xff\xfe", MALFORMED),
    (b"[" * 5_000, MALFORMED),
    (b'{"model": "big", "x": "' + b"x" * 65_536 + b'"}', MALFORMED),
]


@pytest.mark.parametrize(("body", "advice"), ANSWERS, ids=range(len(ANSWERS)))
async def test_what_an_answer_says(
    player: Upstream, nadir_at: Ask, body: bytes | dict[str, Any], advice: Advice
) -> None:
    player.scripts = [answer(200, body)]
    assert await nadir_at(root(player)).advise(question(), None) == advice


@pytest.mark.parametrize("status", [201, 204, 302, 400, 401, 404, 429, 500, 503])
async def test_only_a_2xx_answers(player: Upstream, nadir_at: Ask, status: int) -> None:
    body = {"model": "big"} if status != 204 else b""
    player.scripts = [answer(status, body, {"location": "/v1/bucket"})]
    told = await nadir_at(root(player)).advise(question(), None)
    assert told == {201: Advice("big"), 204: MALFORMED}.get(status, Advice(failure=f"http {status}"))
    assert len(player.requests) == 1, "nothing is tried again, no redirect is followed"


async def endless(_received: Received, connection: Connection) -> None:
    """A body that never ends."""
    await connection.send(head(200, {"transfer-encoding": "chunked"}))
    while not connection.gone.is_set():
        await connection.send(b"1000\r\n" + b"x" * 0x1000 + b"\r\n")


async def garbage(_received: Received, connection: Connection) -> None:
    await connection.send(b"\x00\x01 what is HTTP?\r\n\r\n")
    connection.cut()


async def half(_received: Received, connection: Connection) -> None:
    await connection.send(head(200, {"content-length": "1000"}) + b'{"model":')
    connection.cut()


async def drip(_received: Received, connection: Connection) -> None:
    """Each byte comes in time, the answer does not."""
    await connection.send_slowly(head(200, {"content-length": "1000"}) + b" " * 1000, pause_s=0.05)


@pytest.mark.parametrize(
    ("script", "failure"),
    [
        (hang, "timeout"),
        (drip, "timeout"),
        (endless, "malformed"),
        (garbage, "unreachable"),
        (half, "unreachable"),
        (close_at_once, "unreachable"),
    ],
)
async def test_what_fails_ends_soon(player: Upstream, nadir_at: Ask, script: Script, failure: str) -> None:
    player.scripts = [script]
    async with asyncio.timeout(2.0):
        assert await nadir_at(root(player)).advise(question(timeout_ms=300), None) == Advice(failure=failure)
        await player.connections[0].gone.wait()
    assert len(player.requests) == 1


@pytest.mark.parametrize(
    "base_url",
    [
        "http://127.0.0.1:9",
        "http://nadir.invalid",
        "http://127.0.0.1:99999",
        f"http://{'x' * 64}.invalid",
        "http://[::1",
    ],
)
async def test_an_address_that_leads_nowhere_is_unreachable(nadir_at: Ask, base_url: str) -> None:
    assert await nadir_at("http://127.0.0.1:9").advise(question(base_url), None) == Advice(failure="unreachable")


@pytest.mark.parametrize(
    ("timeout_ms", "left_s", "longest_s"), [(150, None, 0.15), (30_000, 0.25, 0.2), (150, 9.0, 0.15)]
)
async def test_it_ends_at_its_time_out_or_before_the_callers(
    player: Upstream, nadir_at: Ask, timeout_ms: int, left_s: float | None, longest_s: float
) -> None:
    player.scripts = [hang]
    loop = asyncio.get_running_loop()
    began = loop.time()
    assert (await nadir_at(root(player)).advise(question(timeout_ms=timeout_ms), left_s)).failure == "timeout"
    assert longest_s - 0.01 <= loop.time() - began < longest_s + 0.5


@pytest.mark.parametrize("left_s", [0.05, 0.0, -1.0])
async def test_a_caller_without_time_is_not_kept_waiting_and_nadir_not_blamed(
    player: Upstream, nadir_at: Ask, left_s: float
) -> None:
    asker = nadir_at(root(player))
    assert await asker.advise(question(), left_s) == Advice(failure="no time left")
    assert not player.requests
    assert (await asker.advise(question(), 5.0)).model == "big"


FAILING: list[tuple[Script, str]] = [
    (answer(500, b""), "http 500"),
    (answer(200, b"no"), "malformed"),
    (choosing("huge"), "choice outside the pool"),
    (close_at_once, "unreachable"),
    (hang, "timeout"),
]


@pytest.mark.parametrize(("script", "failure"), FAILING, ids=[failure for _, failure in FAILING])
async def test_after_a_failure_it_is_left_alone_for_30_seconds(
    player: Upstream, nadir_at: Ask, hand: Hand, script: Script, failure: str
) -> None:
    player.scripts = [script, choosing("big")]
    asker = nadir_at(root(player))
    assert (await asker.advise(question(timeout_ms=200), None)).failure == failure
    for passed in (0.0, 29.9):
        hand.seconds += passed
        assert await asker.advise(question(base_url=root(player) + "/v1/"), None) == SKIPPED
    assert len(player.requests) == 1
    hand.seconds += 0.1
    assert (await asker.advise(question(), None)).model == "big"


async def test_only_the_address_that_failed_is_left_alone(player: Upstream, nadir_at: Ask) -> None:
    asker = nadir_at(root(player))
    assert (await asker.advise(question("http://127.0.0.1:9"), None)).failure == "unreachable"
    assert (await asker.advise(question(), None)).model == "big"
    assert await asker.advise(question("http://127.0.0.1:9"), None) == SKIPPED


async def test_who_hangs_up_says_nothing_of_nadir(player: Upstream, nadir_at: Ask) -> None:
    player.scripts = [hang, choosing("big")]
    asker = nadir_at(root(player))
    waiting = asyncio.create_task(asker.advise(question(), None))
    while not player.requests:
        await asyncio.sleep(0.01)
    waiting.cancel()
    async with asyncio.timeout(2.0):
        await player.connections[0].gone.wait()
    assert (await asker.advise(question(), None)).model == "big"


async def test_calls_under_way_are_limited(player: Upstream, nadir_at: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "MOST_CALLS", 2)
    player.scripts = [hang]
    asker = nadir_at(root(player))
    waiting = [asyncio.create_task(asker.advise(question(timeout_ms=300), None)) for _ in range(2)]
    await asyncio.sleep(0)
    assert await asker.advise(question(), None) == Advice(failure="too many calls at once")
    assert [advice.failure for advice in await asyncio.gather(*waiting)] == ["timeout", "timeout"]


async def test_many_ask_at_once(player: Upstream, nadir_at: Ask) -> None:
    asker = nadir_at(root(player))
    async with asyncio.timeout(10):
        told = await asyncio.gather(*(asker.advise(question(timeout_ms=9_000), None) for _ in range(200)))
    assert {advice.model for advice in told} == {"big"}
    assert len(player.requests) == 200


async def test_a_failure_is_one_line_without_key_or_prompt(player: Upstream, nadir_at: Ask) -> None:
    player.scripts = [answer(500, b"")]
    asker = nadir_at(root(player), "ndr-hush")
    with structlog.testing.capture_logs() as lines:
        await asyncio.gather(*(asker.advise(question(prompt="a private prompt"), None) for _ in range(5)))
    assert [line["event"] for line in lines] == ["nadir_failed"]
    assert lines[0]["why"] == "http 500"
    assert "hush" not in repr(lines)
    assert "private" not in repr(lines)
    assert "private" not in repr(question(prompt="a private prompt"))


# Stored keys


async def test_a_stored_key_is_opened_once_a_revision_and_off_the_loop() -> None:
    revision, threads = [1], []

    def read(combo: str) -> str:
        threads.append(threading.current_thread())
        return f"{combo}-{revision[0]}"

    keys = StoredKeys(lambda: revision[0], read)
    assert [await keys.of("a"), await keys.of("a"), await keys.of("b")] == ["a-1", "a-1", "b-1"]
    assert len(threads) == 2
    assert threading.main_thread() not in threads
    revision[0] = 2
    assert await keys.of("a") == "a-2"


async def test_a_key_of_an_older_revision_is_not_kept() -> None:
    revision = [1]

    def read(combo: str) -> str:
        if revision[0] == 1:
            revision[0] = 2
            return "old"
        return "new"

    keys = StoredKeys(lambda: revision[0], read)
    assert await keys.of("a") == "old"
    assert await keys.of("a") == "new"


async def test_a_key_that_cannot_be_read_is_not_left_out_and_nadir_not_blamed(player: Upstream, nadir_at: Ask) -> None:
    broken = [True]

    def read(combo: str) -> str:
        if broken[0]:
            raise VaultError("it was stored under another key")
        return "own"

    asker = nadir_at(root(player), "common", StoredKeys(lambda: 1, read).of)
    assert await asker.advise(question(), None) == Advice(failure="its key cannot be read")
    assert not player.requests
    broken[0] = False
    assert (await asker.advise(question(), None)).model == "big"
