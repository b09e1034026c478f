"""From what is stored, known and found in the environment to what the kernel routes on."""

from decision_service.roster_source.demo import parse_demo
from decision_service.roster_source.snapshot import Endpoint, Snapshot, changed_credentials, provider_at
from decision_service.roster_source.source import RosterSource
from decision_service.roster_source.stored import Stored, Surroundings

__all__ = [
    "Endpoint",
    "RosterSource",
    "Snapshot",
    "Stored",
    "Surroundings",
    "changed_credentials",
    "parse_demo",
    "provider_at",
]
