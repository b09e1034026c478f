"""Recorded traffic decided again, offline, under the stored policy and under a changed one.

The journal keeps outcomes, not decisions: neither the dice nor what a request needed nor what was in memory. So no
decision is made again as it was. What is answered is what would have come of the same requests, as far as the outcomes
of each target tell: an estimate.
"""

from decision_service.replay.recorded import Experience, Traffic, read_traffic
from decision_service.replay.rerun import Summary, Tally, of_one_call, rerun, summed
from decision_service.replay.whatif import Changes, changed, snapshot_of

__all__ = [
    "Changes",
    "Experience",
    "Summary",
    "Tally",
    "Traffic",
    "changed",
    "of_one_call",
    "read_traffic",
    "rerun",
    "snapshot_of",
    "summed",
]
