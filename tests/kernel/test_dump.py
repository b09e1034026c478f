"""Every recorded decision, carried home as a scenario in the middle of its run, is made again alike."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from decision_service.kernel.apply import tick
from decision_service.kernel.decide import decide
from decision_service.kernel.dice import Dice
from decision_service.kernel.model import Refused, Turn
from decision_service.scenario import read_scenario, run
from decision_service.scenario.run import Simulation, answer, read_request
from decision_service.scenario.write import write_scenario

CASES = [
    case
    for name in ("decisions", "sequences")
    for case in json.loads((Path(__file__).parent / "cases" / f"{name}.json").read_text())["cases"]
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_a_dump_decides_alike(case: dict[str, Any]) -> None:
    scenario = read_scenario(case["scenario"])
    simulation = Simulation(scenario)
    decided = 0
    for event in scenario.events:
        if "advance_ms" in event:
            simulation.now += event["advance_ms"]
        elif "report" in event:
            simulation.report(event["report"], "report")
        else:
            seed = simulation.seed + decided
            decided += 1
            tick(simulation.state, simulation.now)
            request = read_request(event["decide"], "decide")
            try:
                decision = decide(request, simulation.state, Turn(simulation.now, seed, Dice(seed)))
            except Refused:
                pass
            else:
                dump = json.loads(json.dumps(write_scenario(decision, case["scenario"]["combos"])))
                (again,) = run(read_scenario(dump))
                assert again == _near({"decision": 0, **answer(decision)})
            simulation.decide(event["decide"], "decide")


def _near(value: Any) -> Any:
    """Floats within 1e-9: a rate goes out and comes back as its complement."""
    if isinstance(value, dict):
        return {key: _near(item) for key, item in value.items()}
    return pytest.approx(value, abs=1e-9) if isinstance(value, float) else value
