"""The sync against a real HTTP server: what it learns, what it survives, and what is left after a restart."""

from __future__ import annotations

import asyncio
import gzip
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
from sqlalchemy import Engine, text
from structlog.testing import capture_logs

from decision_service.catalog import Catalog
from decision_service.kernel.knowledge.fitness import fitness
from decision_service.kernel.knowledge.static_fitness import STATIC_FITNESS
from decision_service.kernel.model import Candidate
from decision_service.knowledge_sync import KnowledgeSync, Pace, running, sources
from decision_service.roster_source import RosterSource, Snapshot, Surroundings
from decision_service.settings import DecisionSettings
from decision_service.store import sql
from decision_service.store.engine import open_engine
from decision_service.store.records import KNOWLEDGE
from service_kit.metrics import REGISTRY
from service_kit.settings import SettingsError, read
from tests.decision_service.conftest import Clock
from tests.knowledge.conftest import Outside, Reply

CATALOG = Catalog()
TEXT, CODE, LISTINGS = "/board?name=text", "/board?name=code", "/api.json"
PACE = Pace(interval_s=3_600.0, retry_s=60.0, most_bytes=100_000, deadline_s=1.0)
STATIC_CODING = STATIC_FITNESS["gpt-4o"][0]


def json(body: Any, **more: Any) -> Reply:
    return Reply(orjson.dumps(body), **more)


def board(**ratings: float) -> Reply:
    return json({"models": [{"model": name, "score": rating} for name, rating in ratings.items()]})


def all_well(outside: Outside) -> None:
    outside.replies[TEXT] = board(**{"gpt-4o": 1100, "best": 1400, "worst": 1000})
    outside.replies[CODE] = board(**{"best": 1500, "gpt-4o": 1400, "worst": 1300})
    outside.replies[LISTINGS] = json({"openai": {"models": {"gpt-4o-mini": {"tool_call": True}}}})


class Service:
    """Store, sync and roster of one process."""

    def __init__(self, store: Engine, clock: Clock, outside: Outside, *, flag: bool = True, pace: Pace = PACE) -> None:
        self.store, self.clock, self.pace = store, clock, pace
        self.asked = sources(outside.url("/board?name={board}"), outside.url(LISTINGS))
        around = Surroundings(CATALOG, {"OPENAI_API_KEY": "k"}, synced=flag)
        self.published: list[Snapshot] = []
        self.source = RosterSource(store, around, self.published.append)
        self.source.start(clock)

    async def round(self) -> float:
        async with httpx.AsyncClient(follow_redirects=True, max_redirects=3) as client:
            wait = await KnowledgeSync(self.store, self.asked, self.clock, client, self.pace).round()
        self.source.refresh()
        return wait

    def candidate(self, model: str) -> Candidate:
        roster = self.source.snapshot.roster
        return roster.candidate(roster.connections["openai", "env-openai"], model)

    def coding(self, model: str = "gpt-4o") -> float:
        return fitness(self.candidate(model), "coding")


@pytest.fixture
def service(store: Engine, clock: Clock, outside: Outside) -> Any:
    all_well(outside)
    started = Service(store, clock, outside)
    yield started
    started.source.close()


def count(source: str, result: str) -> float:
    labels = {"source": source, "result": result}
    return REGISTRY.get_sample_value("omniroute_knowledge_syncs_total", labels) or 0.0


async def test_what_sources_tell_is_in_the_next_roster(service: Service, outside: Outside) -> None:
    assert service.coding() == STATIC_CODING
    assert await service.round() == 3_600.0
    assert sorted(outside.asked) == [LISTINGS, CODE, TEXT]
    model = service.candidate("gpt-4o")
    assert (fitness(model, "coding"), fitness(model, "debugging")) == (0.75, 0.75)
    assert (fitness(model, "review"), fitness(model, "default")) == (0.625, 0.625)
    assert service.coding("gpt-4o-mini") == 0.78
    assert service.coding("gpt-4.1") == STATIC_FITNESS["gpt-4.1"][0]
    heard = REGISTRY.get_sample_value("omniroute_knowledge_fetched_seconds", {"source": "text"})
    assert heard == service.clock.now


async def test_a_source_is_asked_once_an_interval(service: Service, clock: Clock, outside: Outside) -> None:
    await service.round()
    clock.now += 600
    assert await service.round() == pytest.approx(3_000.0)
    assert len(outside.asked) == 3
    clock.now += 3_000
    outside.replies[CODE] = board(**{"gpt-4o": 1500, "worst": 1300})
    assert await service.round() == 3_600.0
    assert len(outside.asked) == 6
    assert service.coding() == 1.0


async def test_a_clock_that_was_set_back_does_not_stop_it(service: Service, clock: Clock, outside: Outside) -> None:
    await service.round()
    clock.now -= 10 * 86_400
    await service.round()
    assert len(outside.asked) == 6


BAD: dict[str, tuple[Reply, str]] = {
    "500": (json({"models": []}, status=500), "status"),
    "404": (Reply(status=404), "status"),
    "slow": (json({}, wait_s=5.0), "timeout"),
    "no JSON": (Reply(b"<html>hello</html>"), "unreadable"),
    "no board": (json({"models": "none"}), "unreadable"),
    "empty": (Reply(b""), "unreadable"),
    "huge": (Reply(b"x" * 65_536, repeat=10_000), "too_large"),
    "small but huge when unpacked": (
        Reply(gzip.compress(b" " * 20_000_000), headers={"content-encoding": "gzip"}),
        "too_large",
    ),
    "packed wrongly": (Reply(b"no gzip", headers={"content-encoding": "gzip"}), "network"),
    "cut short": (Reply(b'{"models": [', cut=True), "network"),
    "redirected for ever": (Reply(status=302, headers={"location": CODE}), "network"),
    "redirected nowhere": (Reply(status=302, headers={"location": "file:///etc/passwd"}), "network"),
    "deep": (Reply(b"[" * 50_000), "unreadable"),
}


@pytest.mark.parametrize(("reply", "kind"), BAD.values(), ids=BAD.keys())
async def test_a_failure_leaves_what_was_known(
    service: Service, clock: Clock, outside: Outside, reply: Reply, kind: str
) -> None:
    await service.round()
    clock.now += 3_600
    before = count("code", kind)
    outside.replies[CODE] = reply
    outside.replies[TEXT] = board(**{"gpt-4o": 1400, "worst": 1000})
    with capture_logs() as logs:
        assert await service.round() == 60.0
    assert service.coding() == 0.75
    assert fitness(service.candidate("gpt-4o"), "review") == 1.0, "the other sources are not held up"
    assert count("code", kind) == before + 1
    (line,) = logs
    assert (line["event"], line["source"], line["kind"]) == ("knowledge_not_synced", "code", kind)
    assert "127.0.0.1" not in str(line)
    assert outside.sent < 20_000_000

    all_well(outside)
    outside.asked.clear()
    clock.now += 60
    await service.round()
    assert outside.asked == [CODE], "only what failed is asked again so soon"


async def test_nobody_answers_at_all(store: Engine, clock: Clock, outside: Outside) -> None:
    service = Service(store, clock, outside)
    service.asked = sources("http://127.0.0.1:1/{board}", "")
    assert await service.round() == 60.0
    assert service.coding() == STATIC_CODING
    service.source.close()


async def test_after_a_restart_without_a_network(
    tmp_path: Path, service: Service, clock: Clock, outside: Outside
) -> None:
    await service.round()
    service.source.close()
    outside.replies.clear()
    clock.now += 30 * 86_400
    store = open_engine("", tmp_path)
    again = Service(store, clock, outside)
    assert again.coding() == 0.75
    await again.round()
    assert again.coding() == 0.75
    again.source.close()
    store.dispose()


async def test_without_the_flag_what_is_kept_does_not_count(service: Service, clock: Clock, outside: Outside) -> None:
    await service.round()
    without = Service(service.store, clock, outside, flag=False)
    assert without.coding() == STATIC_CODING
    assert service.coding() == 0.75
    without.source.close()


async def test_another_replica_hears_of_it(service: Service, clock: Clock, outside: Outside) -> None:
    other = Service(service.store, clock, outside)
    await service.round()
    async with asyncio.timeout(10):
        while other.coding() != 0.75:
            await asyncio.sleep(0.05)
    asked = len(outside.asked)
    await other.round()
    assert len(outside.asked) == asked
    other.source.close()


async def test_a_source_of_a_later_version_is_passed_over(service: Service) -> None:
    await service.round()
    with service.store.begin() as connection:
        sql.next_revision(connection)
        connection.execute(text("INSERT INTO synced_knowledge VALUES ('stars', '[]', 1)"))
    service.source.refresh()
    assert service.coding() == 0.75


async def test_a_store_that_cannot_be_written(service: Service) -> None:
    with service.store.begin() as connection:
        connection.execute(text("DROP TABLE synced_knowledge"))
    with capture_logs() as logs:
        async with httpx.AsyncClient() as client:
            assert await KnowledgeSync(service.store, service.asked, service.clock, client, PACE).round() == 60.0
    assert [line["event"] for line in logs] == ["knowledge_not_kept"]


async def test_it_works_in_the_background_and_ends_with_its_owner(service: Service, outside: Outside) -> None:
    async with running(service.store, service.asked, service.clock, PACE), asyncio.timeout(10):
        while len(kept(service.store)) < 3:
            await asyncio.sleep(0.02)
    assert kept(service.store)["text"]["gpt-4o"] == 0.625
    outside.replies[TEXT] = json({}, wait_s=30.0)
    service.clock.now += 3_600
    async with running(service.store, service.asked, service.clock, PACE), asyncio.timeout(10):
        while len(outside.asked) < 6:
            await asyncio.sleep(0.02)
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "knowledge-sync"]


def kept(store: Engine) -> dict[str, Any]:
    with sql.reading(store) as connection:
        return {record.source: record.known for record in sql.rows(connection, KNOWLEDGE)}


# Settings


def test_it_is_off_unless_asked_for() -> None:
    assert not read(DecisionSettings, {}).arena_elo_sync_enabled
    assert read(DecisionSettings, {"ARENA_ELO_SYNC_ENABLED": "true"}).arena_elo_sync_enabled
    assert read(DecisionSettings, {"OMNIROUTE_ARENA_ELO_SYNC_ENABLED": "1"}).arena_elo_sync_enabled


def test_the_sources_of_the_settings() -> None:
    settings = DecisionSettings()
    assert [source.name for source in sources(settings.arena_elo_url, settings.models_dev_url)] == [
        "text",
        "code",
        "capabilities",
    ]
    (one,) = sources("http://host/all", "")
    assert (one.name, one.url) == ("text", "http://host/all")
    assert sources("", "") == ()


@pytest.mark.parametrize("urls", [("ftp://host/x", ""), ("", "models.dev"), ("/x", "")])
def test_a_url_that_is_none_is_refused(urls: tuple[str, str]) -> None:
    with pytest.raises(
        SettingsError, match=r"^OMNIROUTE_\w+_URL: got a text of \d+ characters; allowed: an absolute http or https"
    ):
        sources(*urls)
