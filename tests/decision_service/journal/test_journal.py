"""The journal over real stores: what it acknowledged is there, whatever happens."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from pathlib import Path

import pytest
from sqlalchemy import Engine, event, func, select, text
from sqlalchemy.exc import OperationalError

from decision_service.journal import Journal, JournalClosed, JournalFailed, JournalFull, OutcomeRow, StateRow
from decision_service.journal import rows as rows_module
from decision_service.journal import writer as writer_module
from decision_service.store import sql, tables
from decision_service.store.engine import open_engine
from decision_service.store.migrate import migrate

NOW_MS = 1_767_225_600_000
DAY_MS = 86_400_000


def outcome(decision: str, attempt: int = 1, at: int = NOW_MS, **changes: object) -> OutcomeRow:
    return OutcomeRow(decision_id=decision, attempt=attempt, at=at, **changes)  # type: ignore[arg-type]


def clock() -> float:
    return NOW_MS / 1000


@pytest.fixture
def journal(store: Engine) -> Iterator[Journal]:
    made = Journal(store, clock)
    yield made
    made.close(5)


def settled(*futures: Future[None]) -> None:
    for future in futures:
        future.result(timeout=20)


def stored_outcomes(journal: Journal) -> list[OutcomeRow]:
    with journal.outcomes(0) as found:
        return list(found)


def test_what_is_settled_is_on_disk(journal: Journal, store: Engine) -> None:
    rows = [
        outcome("d1", 1, NOW_MS + 1, provider="openai", model="gpt-4o", cost_usd=0.25, final=True, output_tokens=2**40),
        outcome("d1", 2, NOW_MS, connection_id="c1", outcome_class="SUCCESS"),
    ]
    settled(journal.submit(rows, [StateRow("breaker", "openai", '{"a":1}', 5)]))
    assert stored_outcomes(journal) == [rows[1], rows[0]]
    assert journal.load_states() == [StateRow("breaker", "openai", '{"a":1}', 5)]
    other = Journal(store, clock)
    assert stored_outcomes(other) == [rows[1], rows[0]]
    other.close()


def test_an_outcome_is_kept_once(journal: Journal) -> None:
    first = outcome("d1", 1, outcome_class="SUCCESS")
    settled(journal.submit([first, outcome("d1", 1, outcome_class="TIMEOUT")], []))
    settled(journal.submit([outcome("d1", 1, outcome_class="NETWORK"), outcome("d1", 2)], []))
    assert stored_outcomes(journal) == [first, outcome("d1", 2)]


def test_the_last_state_of_a_key_stays(journal: Journal) -> None:
    states = [StateRow("breaker", "a", "1", 1), StateRow("breaker", "b", "1", 1), StateRow("cooldown", "a", "1", 1)]
    settled(journal.submit([], states))
    settled(journal.submit([], [StateRow("breaker", "a", "2", 2), StateRow("breaker", "a", "3", 3)]))
    settled(journal.submit([], [StateRow("breaker", "b", "9", 4), StateRow("breaker", "b", None, 5)]))
    assert sorted(journal.load_states(), key=lambda row: row.kind) == [
        StateRow("breaker", "a", "3", 3),
        StateRow("cooldown", "a", "1", 1),
    ]


def test_known_pairs(journal: Journal) -> None:
    settled(journal.submit([outcome(f"d{n}", n % 3) for n in range(1_000)], []))
    asked = [(f"d{n}", 1) for n in range(1_200)]
    assert journal.known(asked) == {(f"d{n}", 1) for n in range(1_000) if n % 3 == 1}
    assert journal.known([]) == set()


def test_the_barrier_waits_for_what_came_before(journal: Journal) -> None:
    submitted = [journal.submit([outcome(f"d{n}")], []) for n in range(50)]
    settled(journal.barrier())
    assert all(future.done() for future in submitted)
    assert len(stored_outcomes(journal)) == 50


def test_outcomes_since_an_instant_come_oldest_first(journal: Journal) -> None:
    settled(journal.submit([outcome(f"d{n:04}", at=NOW_MS + n) for n in range(2_500)], []))
    with journal.outcomes(NOW_MS + 400) as found:
        assert [row.at for row in found] == list(range(NOW_MS + 400, NOW_MS + 2_500))


def test_those_who_come_while_a_commit_runs_share_the_next_one(store: Engine) -> None:
    commits: list[int] = []
    event.listen(store, "commit", lambda _connection: commits.append(1))
    journal = Journal(store, clock)
    locker = store.connect()
    locker.execute(text("SELECT 1") if store.dialect.name == "sqlite" else text("LOCK TABLE outcomes"))
    futures = [journal.submit([outcome(f"d{n}")], []) for n in range(200)]
    time.sleep(0.2)
    assert not any(future.done() for future in futures)
    locker.rollback()
    locker.close()
    settled(*futures)
    journal.close()
    assert len(commits) <= 3
    assert len(stored_outcomes(journal)) == 200


def test_many_threads(journal: Journal) -> None:
    def report(thread: int) -> None:
        for n in range(25):
            settled(journal.submit([outcome(f"t{thread}-{n}")], [StateRow("breaker", f"t{thread}", str(n), n)]))

    threads = [threading.Thread(target=report, args=(n,)) for n in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(stored_outcomes(journal)) == 400
    assert {row.state for row in journal.load_states()} == {"24"}


async def test_a_caller_that_goes_away_does_not_take_its_rows_with_it(journal: Journal) -> None:
    waiting = asyncio.wrap_future(journal.submit([outcome("d1")], []))
    waiting.cancel()
    await asyncio.wrap_future(journal.barrier())
    assert journal.known([("d1", 1)]) == {("d1", 1)}


# Limits and failures


def test_a_full_queue_refuses_at_once(store: Engine) -> None:
    journal = Journal(store, clock, queue_limit=10)
    with store.begin() as locker:
        locker.execute(text("SELECT 1") if store.dialect.name == "sqlite" else text("LOCK TABLE outcomes"))
        first = journal.submit([outcome("first")], [])
        time.sleep(0.1)  # the thread has taken it and waits for the lock
        second = journal.submit([outcome(f"d{n}") for n in range(9)], [StateRow("a", "b", "c", 1)])
        with pytest.raises(JournalFull, match="limit is 10"):
            journal.submit([outcome("over")], [])
        behind = journal.barrier()
    settled(first, second, behind)
    settled(journal.submit([outcome("over")], []))
    journal.close()


def test_a_row_that_cannot_be_stored_fails_alone(journal: Journal, store: Engine) -> None:
    with store.begin() as locker:
        locker.execute(text("SELECT 1") if store.dialect.name == "sqlite" else text("LOCK TABLE outcomes"))
        first = journal.submit([outcome("first")], [])
        time.sleep(0.1)
        good = journal.submit([outcome("good")], [])
        bad = journal.submit([outcome("bad", latency_ms=2**80)], [])
        worse = journal.submit([outcome("wor\ud800se")], [])
        also = journal.submit([outcome("also")], [])
    settled(first, good, also)
    for future in (bad, worse):
        with pytest.raises(JournalFailed):
            future.result(timeout=20)
    assert {row.decision_id for row in stored_outcomes(journal)} == {"first", "good", "also"}
    assert journal.alive


class Outage:
    """Fails a store's statements as a lost disk would."""

    def __init__(self, engine: Engine) -> None:
        self.on = False
        self.failed = 0
        event.listen(engine, "before_cursor_execute", self._fail)

    def _fail(self, connection: object, cursor: object, statement: str, *_rest: object) -> None:
        if self.on and statement.startswith("INSERT INTO outcomes"):
            self.failed += 1
            raise OperationalError(statement, {}, sqlite3.OperationalError("disk I/O error"))


def test_a_failed_commit_is_tried_again_with_its_rows(store: Engine) -> None:
    outage = Outage(store)
    journal = Journal(store, clock)
    outage.on = True
    future = journal.submit([outcome("d1")], [])
    deadline = time.monotonic() + 10
    while outage.failed < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not future.done()
    outage.on = False
    settled(future)
    assert outage.failed >= 2
    assert journal.known([("d1", 1)]) == {("d1", 1)}
    journal.close()


def test_a_store_that_stays_away_fails_the_reports_and_not_the_journal(store: Engine) -> None:
    outage = Outage(store)
    journal = Journal(store, clock, give_up_s=0.2)
    outage.on = True
    with pytest.raises(JournalFailed):
        journal.submit([outcome("d1")], []).result(timeout=20)
    outage.on = False
    settled(journal.submit([outcome("d2")], []))
    assert [row.decision_id for row in stored_outcomes(journal)] == ["d2"]
    journal.close()


def test_closing_writes_what_waits(store: Engine) -> None:
    journal = Journal(store, clock)
    futures = [journal.submit([outcome(f"d{n}")], []) for n in range(100)]
    journal.close()
    settled(*futures)
    assert not journal.alive
    with pytest.raises(JournalClosed):
        journal.submit([outcome("late")], [])
    with pytest.raises(JournalClosed):
        journal.barrier()


def test_closing_does_not_wait_for_a_store_that_is_away(store: Engine) -> None:
    outage = Outage(store)
    journal = Journal(store, clock)
    outage.on = True
    future = journal.submit([outcome("d1")], [])
    began = time.monotonic()
    journal.close(0.2)
    assert time.monotonic() - began < 5
    with pytest.raises(JournalFailed):
        future.result(timeout=1)


def test_a_thread_that_dies_leaves_nobody_waiting(store: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_arguments: object) -> None:
        raise RuntimeError("a fault of our own")

    monkeypatch.setattr(rows_module, "write", broken)
    monkeypatch.setattr(threading, "excepthook", lambda _arguments: None)
    journal = Journal(store, clock)
    futures = [journal.submit([outcome("d1")], []), journal.submit([outcome("d2")], [])]
    done, waiting = wait_for(futures, timeout=10)
    assert not waiting
    assert all(isinstance(future.exception(), JournalFailed) for future in done)
    with pytest.raises(JournalClosed):
        journal.submit([outcome("d3")], [])
    assert not journal.alive


def test_a_linger_gathers_company(store: Engine) -> None:
    commits: list[int] = []
    event.listen(store, "commit", lambda _connection: commits.append(1))
    journal = Journal(store, clock, linger_ms=200)
    futures = []
    for n in range(10):
        futures.append(journal.submit([outcome(f"d{n}")], []))
        time.sleep(0.005)
    settled(*futures)
    journal.close()
    assert len(commits) == 1


def test_what_is_too_old_goes_in_portions(store: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_module, "SWEEP_EVERY_S", 0.0)
    monkeypatch.setattr(writer_module, "SWEPT_AT_ONCE", 7)
    monkeypatch.setattr(writer_module, "IDLE_S", 0.01)
    with store.begin() as connection:
        for days in (1, 89, 91):
            sql.note(connection, sql.AuditLine(NOW_MS - days * DAY_MS, "create", "combo", f"{days}"))
    journal = Journal(store, clock, retention_days=7)
    old = [outcome(f"old{n}", at=NOW_MS - 7 * DAY_MS - 1 - n) for n in range(50)]
    settled(journal.submit([*old, outcome("new", at=NOW_MS - 7 * DAY_MS)], []))
    deadline = time.monotonic() + 10
    while len(stored_outcomes(journal)) > 1 and time.monotonic() < deadline:
        time.sleep(0.02)
    journal.close()
    assert [row.decision_id for row in stored_outcomes(journal)] == ["new"]
    with sql.reading(store) as connection:
        assert connection.execute(select(func.count()).select_from(tables.audit)).scalar() == 2


# Death

REPORTER = """
import itertools, sys, threading, time
from pathlib import Path
from decision_service.journal import Journal, OutcomeRow, StateRow
from decision_service.store.engine import open_engine

journal = Journal(open_engine("", Path(sys.argv[1])), time.time)
said = threading.Lock()

def report(thread):
    for n in itertools.count():
        name = f"{sys.argv[2]}-{thread}-{n}"
        journal.submit([OutcomeRow(name, 1, n)], [StateRow("last", f"{thread}", name, n)]).result()
        with said:
            sys.stdout.write(name + "\\n")
            sys.stdout.flush()

for thread in range(8):
    threading.Thread(target=report, args=(thread,), daemon=True).start()
time.sleep(60)
"""


def killed_after(seconds: float, data_dir: Path, name: str) -> list[str]:
    """What a process acknowledged until it was killed; at least some."""
    process = subprocess.Popen(
        [sys.executable, "-c", REPORTER, str(data_dir), name],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert process.stdout is not None
    said = [process.stdout.readline()]
    time.sleep(seconds)
    process.send_signal(signal.SIGKILL)
    said += process.stdout.readlines()
    process.wait(10)
    return [line.strip() for line in said if line.endswith("\n")]


def test_what_was_acknowledged_survives_kill_9(tmp_path: Path) -> None:
    engine = open_engine("", tmp_path)
    migrate(engine)
    acknowledged: list[str] = []
    for round_, seconds in enumerate((0.05, 0.2, 0.4)):
        said = killed_after(seconds, tmp_path, f"r{round_}")
        assert len(said) > 10
        acknowledged += said
    journal = Journal(engine, clock)
    assert journal.known([(name, 1) for name in acknowledged]) == {(name, 1) for name in acknowledged}
    last = {row.key: row.state for row in journal.load_states()}
    for thread, state in last.items():
        mine = [int(name.rsplit("-", 1)[1]) for name in said if name.split("-")[1] == thread]
        assert state is not None
        assert int(state.rsplit("-", 1)[1]) >= max(mine, default=0)
    with engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA integrity_check").scalar() == "ok"
    journal.close()
    engine.dispose()
