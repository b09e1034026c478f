"""What ``omnictl top`` knows of a running service at one moment: four bounded questions that move nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from omnictl.connecting import Service
from omnictl.decisions import called, name_of
from omnictl.printing import plain, short
from omniroute.decision.v1 import decision_pb2 as pb
from omniroute.decision.v1 import decision_pb2_grpc
from omniroute.registry.v1 import registry_pb2, registry_pb2_grpc

DECISIONS_ASKED, STATES_ASKED = 100, 200
WINDOW_S = 60.0
LEAST_SPAN_S = 0.001
OPEN = "open"
NEITHER = frozenset({OPEN, "CLIENT_CANCELLED", "LOCAL_CANCELLED"})


@dataclass(frozen=True, slots=True)
class Rates:
    """Of the decisions in the last minute, or of the last 100 where these are fewer; ``errors`` a second.

    ``failed`` is the share of failures among decisions that came to an answer or to a failure; None: none has. A call
    that was called off, by its client or by us, is neither.
    """

    span_s: float
    decisions: float
    errors: float
    failed: float | None


@dataclass(frozen=True, slots=True)
class Frame:
    """One look. ``scores`` are by candidate; ``problem`` says why there is no newer one."""

    at: float
    rates: Rates
    records: Sequence[pb.DecisionRecord] = ()
    candidates: Sequence[pb.CandidateView] = ()
    scores: Mapping[str, float] | None = None
    states: Sequence[registry_pb2.State] = ()
    problem: str = ""

    def plain(self) -> dict[str, Any]:
        """As JSON values; fields of messages as in the contract."""
        scores = self.scores or {}
        return {
            "at": datetime.fromtimestamp(self.at, UTC).isoformat(timespec="milliseconds"),
            "problem": self.problem,
            "rates": {
                "span_s": round(self.rates.span_s, 3),
                "decisions_per_s": self.rates.decisions,
                "errors_per_s": self.rates.errors,
                "failed_share": self.rates.failed,
            },
            "decisions": [told(record) for record in self.records],
            "candidates": [plain(view) | {"score": scores.get(view.candidate)} for view in self.candidates],
            "states": [plain(state) for state in self.states],
        }


NOTHING = Rates(WINDOW_S, 0.0, 0.0, None)


def look(service: Service, model: str, key: str, clock: Callable[[], float]) -> Frame:
    """Ask once. Raises CommandError, Unreachable when no answer comes."""
    stub = decision_pb2_grpc.DecisionServiceStub(service.channel)
    states = registry_pb2_grpc.StateServiceStub(service.channel)
    listed = service.ask(stub.ListDecisions, pb.ListDecisionsRequest(api_key_id=key, page_size=DECISIONS_ASKED))
    pool = service.ask(stub.ListCandidates, pb.ListCandidatesRequest(model=model, api_key_id=key))
    explained = service.ask(stub.Explain, pb.ExplainRequest(request=pb.DecideRequest(model=model, api_key_id=key)))
    abnormal = registry_pb2.ListStatesRequest(abnormal_only=True, page_size=STATES_ASKED)
    now = clock()
    return Frame(
        at=now,
        rates=rates(listed.records, now),
        records=listed.records,
        candidates=pool.candidates,
        scores={row.candidate: row.score for row in explained.decision.trace.candidates if row.HasField("score")},
        states=service.ask(states.ListStates, abnormal).states,
    )


def rates(records: Sequence[pb.DecisionRecord], now: float) -> Rates:
    """``records`` newest first; ``now`` in seconds since the epoch."""
    recent = [record for record in records if now - instant(record) <= WINDOW_S]
    full = len(recent) == DECISIONS_ASKED
    span = max(now - instant(recent[-1]), LEAST_SPAN_S) if full else WINDOW_S
    results = [result(record) for record in recent]
    ended = [each for each in results if each not in NEITHER]
    failed = sum(each != "SUCCESS" for each in ended)
    return Rates(span, len(recent) / span, failed / span, failed / len(ended) if ended else None)


def instant(record: pb.DecisionRecord) -> float:
    """When it was made, seconds since the epoch."""
    return record.at.ToNanoseconds() / 1e9


def result(record: pb.DecisionRecord) -> str:
    """Class of its final outcome, else of its last one; open: nothing came back yet."""
    final = [one for one in record.outcomes if one.final] or record.outcomes
    return short(pb.OutcomeClass.DESCRIPTOR, final[-1].outcome_class) if final else OPEN


def told(record: pb.DecisionRecord) -> dict[str, Any]:
    """A decision in one row."""
    decision, outcomes = record.decision, record.outcomes
    first = next(called(decision.plan), None)
    return {
        "at": record.at.ToJsonString(),
        "decision_id": decision.decision_id,
        "model": record.model,
        "combo": decision.combo,
        "strategy": decision.strategy,
        "router_strategy": decision.router_strategy,
        "api_key_id": record.api_key_id,
        "target": name_of(first) if first else "",
        "outcome": result(record),
        "attempts": len(outcomes),
        "latency_ms": sum(one.latency_ms for one in outcomes) if outcomes else None,
        "cost_usd": sum(one.cost_usd for one in outcomes) if outcomes else None,
    }
