"""Scenarios: the kernel run offline over a pool, a state and a list of events given in one file."""

from decision_service.scenario.read import Scenario, read_scenario
from decision_service.scenario.run import run

__all__ = ["Scenario", "read_scenario", "run"]
