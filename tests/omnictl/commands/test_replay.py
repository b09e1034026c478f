"""``omnictl replay`` over what a running service recorded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest

from omniroute.decision.v1 import decision_pb2 as pb
from omniroute.decision.v1 import decision_pb2_grpc
from tests.omnictl.commands.conftest import ADDRESS, Omnictl, decision_service

DEAR, CHEAP = "openai/gpt-4o@oa1", "openai/gpt-4o-mini@oa1"
COMBO = """
name: {name}
strategy: {strategy}
steps: [{{model: {first}}}, {{model: {second}}}]
"""
EACH = 6


def combo(name: str, *, cheap_first: bool, strategy: str = "priority") -> str:
    models = [DEAR.partition("@")[0], CHEAP.partition("@")[0]]
    first, second = reversed(models) if cheap_first else models
    return COMBO.format(name=name, strategy=strategy, first=first, second=second)


@dataclass(frozen=True)
class Past:
    """A service's data directory, and a backup of it without the key."""

    data: Path
    backup: Path


def call(stub: decision_pb2_grpc.DecisionServiceStub, model: str, usd: float) -> None:
    decision = stub.Decide(pb.DecideRequest(model=model, features=pb.RequestFeatures(input_tokens=1_000)), timeout=5)
    outcome = pb.Outcome(decision_id=decision.decision_id, attempt=1, target_id=decision.plan.targets[0].target_id)
    outcome.outcome_class, outcome.final = pb.OUTCOME_CLASS_SUCCESS, True
    outcome.latency_ms, outcome.input_tokens, outcome.output_tokens, outcome.cost_usd = 50, 1_000, 100, usd
    assert stub.Report(pb.ReportRequest(outcomes=[outcome]), timeout=5).accepted == 1


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Past]:
    """Requests to a combo that prefers the dear model, and a few to the cheap one itself; the service still runs."""
    folder = tmp_path_factory.mktemp("past")
    with decision_service(folder) as address:
        omnictl = Omnictl({ADDRESS: address, "KEY": "sk-1"})
        openai = ("connections", "add", "openai", "--id", "oa1", "--api-key-env", "KEY")
        assert omnictl(*openai, "--model", "gpt-4o", "--model", "gpt-4o-mini").status == 0
        assert omnictl("combos", "create", "-f", "-", stdin=combo("mine", cheap_first=False)).status == 0
        with grpc.insecure_channel(address) as channel:
            stub = decision_pb2_grpc.DecisionServiceStub(channel)
            for _ in range(EACH):
                call(stub, "mine", 0.5)
                call(stub, "openai/gpt-4o-mini", 0.01)
        assert omnictl("backup", str(folder / "backup"), "--data-dir", str(folder / "data")).status == 0
        yield Past(folder / "data", folder / "backup")


def test_the_stored_policy_comes_to_what_was_recorded(offline: Omnictl, past: Past) -> None:
    found = offline("replay", str(past.data), "--json").json
    assert found["recorded"]["decisions"] == 2 * EACH
    assert {name: one["decisions"] for name, one in found["recorded"]["targets"].items()} == {DEAR: EACH, CHEAP: EACH}
    assert found["stored_policy"] == found["recorded"]
    assert "estimates" in found["estimates"]
    assert "changed_policy" not in found


def test_a_changed_combo_is_compared(offline: Omnictl, past: Past) -> None:
    changed = offline(
        "replay", str(past.data), "-c", "-", "--only", "mine", "--json", stdin=combo("mine", cheap_first=True)
    ).json
    assert changed["recorded"]["targets"].keys() == {DEAR}
    assert changed["stored_policy"]["same_first_share"] == 1
    assert changed["changed_policy"]["targets"].keys() == {CHEAP}
    assert changed["changed_policy"]["same_first_share"] == 0
    # the request's own tokens at the cheap model's prices, not what other requests cost there
    assert changed["changed_policy"]["cost_usd_mean"] == pytest.approx((1_000 * 0.15 + 100 * 0.6) / 1e6)


def test_a_new_combo_takes_every_request(offline: Omnictl, past: Past) -> None:
    out = offline("replay", str(past.data), "-c", "-", stdin=combo("other", cheap_first=True)).out
    rows = {line.split("  ")[0]: line.split()[-3:] for line in out.splitlines()}
    assert rows[DEAR][-1] == "-"
    assert rows[CHEAP] == ["100.0%,", "100%", "answered"]
    assert "no decision can be made again bit for bit" in out


def test_a_backup_is_replayed_alike(offline: Omnictl, past: Past, tmp_path: Path) -> None:
    key = (past.data / "secret.key").read_text().strip()
    of_backup = offline("replay", str(past.backup), "--json", OMNIROUTE_SECRET_KEY=key)
    assert of_backup.json == offline("replay", str(past.data), "--json").json
    away = str(tmp_path)
    assert "needs the secret key" in offline("replay", str(past.backup), "--data-dir", away).refused(1)


def test_what_cannot_be_replayed_is_told(offline: Omnictl, past: Past, tmp_path: Path) -> None:
    data = str(past.data)
    assert "there is no store" in offline("replay", str(tmp_path)).refused(1)
    assert "No such file" in offline("replay", str(tmp_path / "nothing")).refused(1)
    assert "no decision of nobody" in offline("replay", data, "--only", "nobody").refused(1)
    assert "hidePaidModels" in offline("replay", data, "--set", "hidePaid=true").refused(2)
    assert "nowhere: policies that are not there" in offline("replay", data, "--model", "nowhere").refused(2)
    fused = combo("mine", cheap_first=True, strategy="fusion")
    assert "plans of several calls" in offline("replay", data, "-c", "-", stdin=fused).refused(2)
    assert "strategy" in offline("replay", data, "-c", "-", stdin="{name: x, strategy: none}").refused(2)


def test_a_damaged_store_is_told(offline: Omnictl, tmp_path: Path) -> None:
    (tmp_path / "omniroute.db").write_bytes(b"no database" * 500)
    assert "the store cannot be read" in offline("replay", str(tmp_path)).refused(1)


def test_nothing_is_changed(offline: Omnictl, past: Past) -> None:
    before = (past.data / "secret.key").read_bytes(), past.backup.read_bytes()
    offline("replay", str(past.data), "--limit", "1", "--seed", "9")
    assert ((past.data / "secret.key").read_bytes(), past.backup.read_bytes()) == before
