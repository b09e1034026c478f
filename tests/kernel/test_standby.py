"""Connections that serve channels only while there is nothing else, and embeddings that a chat model lacks."""

from __future__ import annotations

from typing import Any

from decision_service.kernel.model import Operation, OutcomeClass
from tests.kernel.rig import Rig, ids, roster

SIMULATED, REAL = "demo/m@s", "p/m@real"


def rig(**real: Any) -> Rig:
    return Rig(roster([SIMULATED, REAL], connections={"s": {"standby": True}, "real": real}))


def test_a_standby_leaves_a_channel_to_what_is_usable() -> None:
    assert ids(rig().ask("auto")) == [REAL]
    assert ids(rig().ask("demo/m")) == [SIMULATED], "by its name it always answers"


def test_a_standby_serves_while_nothing_else_can() -> None:
    assert ids(rig(usable=False).ask("auto")) == [SIMULATED]
    assert ids(rig(enabled=False).ask("auto")) == [SIMULATED]


def test_a_model_that_is_missing_for_embeddings_is_not_locked_for_chat() -> None:
    one = rig()
    one.decide("p/m", operation=Operation.EMBEDDINGS)
    one.report(OutcomeClass.MODEL_NOT_FOUND, http_status=404)
    assert ids(one.ask("p/m")) == [REAL]
    one.decide("p/m")
    one.report(OutcomeClass.MODEL_NOT_FOUND, http_status=404)
    assert one.wait("p/m") == 3_600_000
