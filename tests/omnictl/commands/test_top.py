"""``omnictl top``: one look, look after look, at a terminal, and while the service is away."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from rich.console import Console

from omnictl.screen import drawn
from omnictl.watching import DECISIONS_ASKED, NOTHING, WINDOW_S, Frame, rates, result
from omniroute.decision.v1 import decision_pb2 as pb
from omniroute.decision.v1 import decision_pb2_grpc
from omniroute.registry.v1 import registry_pb2
from tests.decision_service.process import free_ports
from tests.omnictl.commands.conftest import ADDRESS, Omnictl, decision_service

BIG = "openai/gpt-4o@oa1"
LIMIT_S = 40.0
END_OF_SCREEN = b"\x1b[?1049l"  # back from the screen of its own


def decide(address: str, outcome: str = "SUCCESS", model: str = BIG[:13]) -> str:
    """A decision and its outcome, none where that is empty; its id."""
    with grpc.insecure_channel(address) as channel:
        stub = decision_pb2_grpc.DecisionServiceStub(channel)
        decision = stub.Decide(pb.DecideRequest(model=model), timeout=5)
        if outcome:
            target = decision.plan.targets[0].target_id
            known = pb.Outcome(decision_id=decision.decision_id, attempt=1, target_id=target)
            known.outcome_class = pb.OutcomeClass.Value(f"OUTCOME_CLASS_{outcome}")
            known.latency_ms, known.cost_usd, known.final = 1234, 0.5, True
            stub.Report(pb.ReportRequest(outcomes=[known]), timeout=5)
        return str(decision.decision_id)


def test_one_look_in_a_pipe(omnictl: Omnictl, address: str) -> None:
    done = decide(address)
    lost = decide(address, "CLIENT_CANCELLED")
    held = decide(address, "")
    out = omnictl("top").out
    lines = {line.split()[1]: line for line in out.splitlines() if " dec_" in line}
    assert " SUCCESS " in lines[done]
    assert "1234" in lines[done]
    assert "0.5" in lines[done]
    assert " CLIENT_CANCELLED " in lines[lost]
    assert " open " in lines[held]
    assert all(BIG in lines[one] for one in (done, lost, held))
    assert f"{BIG} " in out
    assert "decisions/s" in out


def test_json_is_one_object_a_line(omnictl: Omnictl, address: str) -> None:
    held = decide(address, "")
    ran = omnictl("top", "--json")
    assert ran.out.count("\n") == 1
    frame = ran.json
    assert frame["decisions"][0]["decision_id"] == held
    assert frame["decisions"][0]["outcome"] == "open"
    assert frame["decisions"][0]["target"] == BIG
    candidates = {one["candidate"]: one for one in frame["candidates"]}
    assert candidates[BIG]["in_flight"] >= 1
    assert 0 < candidates[BIG]["score"] <= 1
    assert frame["rates"]["decisions_per_s"] > 0
    assert (frame["problem"], frame["states"]) == ("", [])


def test_looking_moves_nothing(omnictl: Omnictl) -> None:
    before = omnictl("top", "--json").json
    for _ in range(3):
        after = omnictl("top", "--json").json
    assert after["decisions"] == before["decisions"]
    assert after["candidates"] == before["candidates"]


def test_what_stops_a_candidate_is_shown(tmp_path: Path) -> None:
    with decision_service(tmp_path) as address:
        omnictl = Omnictl({ADDRESS: address, "KEY": "sk-1"})
        omnictl("connections", "add", "openai", "--id", "oa1", "--api-key-env", "KEY", "--model", "gpt-4o")
        decide(address, "RATE_LIMITED")
        frame = omnictl("top", "--json").json
        assert [state["kind"] for state in frame["states"]] == ["cooldown"]
        assert frame["rates"]["failed_share"] == 1.0
        out = omnictl("top").out
        assert "cooldown  openai/oa1  RESTING" in out
        assert "RATE_LIMITED" in out


@pytest.mark.parametrize("columns", [10_000, 100, 80, 60])
def test_a_row_is_one_line_however_narrow_the_terminal_is(columns: int) -> None:
    made = record(1, "SUCCESS")
    made.model, made.decision.decision_id, made.decision.strategy = "a-combo", "dec_0123456789ab_7f", "round-robin"
    made.decision.combo = made.model
    made.decision.plan.targets.add(provider="openai", model="gpt-4o", connection_id="oa1")
    stopped = registry_pb2.State(kind="lockout", key=BIG, state="RESTING", reason="rate_limited", until_ms=60_000)
    frame = Frame(1000, NOTHING, [made], [pb.CandidateView(candidate=BIG, reachable=True)], {BIG: 0.5}, [stopped])
    console = Console(width=columns, no_color=True, force_terminal=False)
    with console.capture() as kept:
        console.print(drawn(frame, columns, 40))
    lines = kept.get().splitlines()
    assert [line for line in lines if "dec_0123456789ab_7f" in line and BIG in line and "SUCCESS" in line]
    assert [line for line in lines if BIG in line and "RESTING" in line and "1 min" in line]
    assert len(lines) == 13
    assert ("round-robin" in kept.get()) is (columns >= 100)


def test_refusals_and_absence_end_one_look(omnictl: Omnictl, offline: Omnictl) -> None:
    assert "no-such" in omnictl("top", "no-such-combo").refused(1)
    assert "no decision service answers" in offline("top", "--address", "127.0.0.1:1").refused(1)
    assert "--interval" in omnictl("top", "--interval", "0").err


def record(age_s: float, *outcomes: str) -> pb.DecisionRecord:
    """Made so long before instant 1000."""
    made = pb.DecisionRecord()
    made.at.FromMilliseconds(round((1000 - age_s) * 1000))
    for name in outcomes:
        made.outcomes.add(outcome_class=pb.OutcomeClass.Value(f"OUTCOME_CLASS_{name}"))
    return made


def test_rates_are_of_the_last_minute() -> None:
    records = [record(1), record(2, "SUCCESS"), record(3, "TIMEOUT", "SUCCESS"), record(50, "TIMEOUT"), record(61)]
    found = rates(records, 1000)
    assert (found.span_s, found.decisions, found.errors) == (WINDOW_S, 4 / 60, 1 / 60)
    assert found.failed == pytest.approx(1 / 3)
    assert rates([], 1000).failed is None


def test_what_was_called_off_is_no_error() -> None:
    off = [record(1, "LOCAL_CANCELLED"), record(2, "CLIENT_CANCELLED")]
    assert (rates(off, 1000).errors, rates(off, 1000).failed) == (0, None)
    assert rates([*off, record(3, "SUCCESS"), record(4, "TIMEOUT")], 1000).failed == pytest.approx(1 / 2)


def test_rates_under_load_are_of_what_was_listed() -> None:
    found = rates([record(0.02 * number, "SUCCESS") for number in range(1, DECISIONS_ASKED + 1)], 1000)
    assert found.decisions == pytest.approx(50)
    assert found.failed == 0


def test_the_final_outcome_counts() -> None:
    late = record(1, "SUCCESS", "TIMEOUT")
    late.outcomes[0].final = True
    assert result(late) == "SUCCESS"


class Terminal:
    """A command at a terminal of 80 columns and 40 lines."""

    def __init__(self, *arguments: str, **environ: str) -> None:
        self.screen, inside = pty.openpty()
        fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 80, 0, 0))
        sizes = ("COLUMNS", "LINES", "OMNIROUTE_")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(sizes)}
        command = [sys.executable, "-m", "omnictl", *arguments]
        self.process = subprocess.Popen(
            command, stdin=inside, stdout=inside, stderr=inside, env=kept | {"TERM": "xterm"} | environ, close_fds=True
        )
        os.close(inside)
        self.written = b""

    def shows(self, text: str) -> None:
        """Read on until this is written."""
        self._read(lambda fresh: text.encode() in fresh)

    def _read(self, enough: Callable[[bytes], bool]) -> None:
        until, fresh = time.monotonic() + LIMIT_S, b""
        while not enough(fresh):
            ready, _, _ = select.select([self.screen], [], [], until - time.monotonic())
            assert ready, b" ".join(self.written[-20_000:].split())[-2_000:].decode(errors="replace")
            try:
                got = os.read(self.screen, 65_536)
            except OSError:  # the other side is closed
                break
            fresh, self.written = fresh + got, self.written + got

    def interrupt(self) -> int:
        """As Ctrl-C does; the exit status."""
        self.process.send_signal(signal.SIGINT)
        return self.ended()

    def ended(self) -> int:
        """The exit status of a command that ends by itself; it could not while nobody read what it writes."""
        self._read(lambda _: False)
        return self.process.wait(LIMIT_S)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.screen)


@contextmanager
def terminal(*arguments: str, **environ: str) -> Iterator[Terminal]:
    opened = Terminal(*arguments, **environ)
    try:
        yield opened
    finally:
        opened.close()


@pytest.mark.timeout(150)
def test_a_live_view_survives_the_service_and_ends_by_ctrl_c(tmp_path: Path) -> None:
    [port] = free_ports(1)
    bind = {"OMNIROUTE_DECISION_BIND": f"127.0.0.1:{port}"}
    with terminal("top", "--interval", "0.2", **{ADDRESS: f"127.0.0.1:{port}"}) as at:
        at.shows("no decision service answers")
        with decision_service(tmp_path, **bind) as address:
            omnictl = Omnictl({ADDRESS: address, "KEY": "sk-1"})
            omnictl("connections", "add", "openai", "--id", "oa1", "--api-key-env", "KEY", "--model", "gpt-4o")
            at.shows(decide(address))
        at.shows("no decision service answers")
        (tmp_path / "log").unlink()
        with decision_service(tmp_path, **bind) as address:
            at.shows("No decision was made yet")
            assert at.interrupt() == 0
    assert END_OF_SCREEN in at.written
    assert b"Traceback" not in at.written
    assert b"Aborted" not in at.written


def test_a_refusal_ends_the_live_view(address: str) -> None:
    with terminal("top", "no-such-combo", **{ADDRESS: address}) as at:
        at.shows("no-such-combo")
        assert at.ended() == 1


def test_a_stream_of_looks_goes_on_in_a_pipe(address: str) -> None:
    command = [sys.executable, "-m", "omnictl", "top", "--json", "--interval", "0.1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=os.environ | {ADDRESS: address}) as process:
        assert process.stdout is not None
        frames: list[Any] = [json.loads(process.stdout.readline()) for _ in range(3)]
        process.send_signal(signal.SIGINT)
        assert process.wait(LIMIT_S) == 0
    assert len({frame["at"] for frame in frames}) == 3


@pytest.mark.parametrize(("variables", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_colours_at_a_terminal(address: str, variables: dict[str, str], *, coloured: bool) -> None:
    decide(address, "CLIENT_CANCELLED")
    with terminal("top", "--once", **{ADDRESS: address}, **variables) as at:
        assert at.ended() == 0
    assert (b"\x1b[33m" in at.written) is coloured, at.written
