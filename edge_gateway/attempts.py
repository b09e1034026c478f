"""What is known of a decision's attempts, so that every lease of it comes to an end."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from omniroute.decision.v1 import decision_pb2
from omniroute.decision.v1.decision_pb2 import Outcome, Plan, Target


class Attempts:
    """Takes the outcomes of one decision as they come, and makes the closing one when none of them was final.

    ``clock`` is monotonic, in seconds.
    """

    def __init__(self, decision: decision_pb2.DecideResponse, api_key_id: str, clock: Callable[[], float]) -> None:
        self._decision_id = decision.decision_id
        self._plan = decision.plan
        self._api_key_id = api_key_id
        self._awaits_summary = decision.plan.hand_off.summarize
        self._held: Outcome | None = None
        self._summary = ""
        self._last: Outcome | None = None
        self._highest = 0
        self._clock = clock
        self._began = clock()
        self.final = False

    @property
    def count(self) -> int:
        """Highest attempt number so far."""
        return self._highest

    def take(self, outcome: Outcome) -> list[Outcome]:
        """What to report now: the outcome, but a final one waits while a hand-off summary may still come."""
        outcome.api_key_id = self._api_key_id
        if self._summary:
            outcome.hand_off_summary, self._summary = self._summary, ""
        self._last = outcome
        self._began = self._clock()
        self._highest = max(self._highest + 1, outcome.attempt)
        self.final = self.final or outcome.final
        if outcome.final and self._awaits_summary and not outcome.hand_off_summary:
            self._held = outcome
            return []
        return [outcome]

    def take_summary(self, summary: str) -> list[Outcome]:
        """A summary travels on the next outcome, or on the final one that waited for it."""
        if self._held is None:
            self._summary = summary
            return []
        self._held.hand_off_summary = summary
        return self.release()

    def release(self) -> list[Outcome]:
        """The final outcome that waited, if one did; nothing more will come."""
        held, self._held = self._held, None
        return [held] if held is not None else []

    def close(self, outcome_class: decision_pb2.OutcomeClass.ValueType) -> list[Outcome]:
        """End the decision for the attempt in flight; empty when its end is known."""
        if self.final:
            return self.release()
        target = self._in_flight()
        self.final = True
        self._highest += 1
        succeeded = outcome_class == decision_pb2.OUTCOME_CLASS_SUCCESS
        return [
            Outcome(
                decision_id=self._decision_id,
                attempt=self._highest,
                target_id=target.target_id,
                provider=target.provider,
                model=target.model,
                connection_id=target.connection_id,
                outcome_class=outcome_class,
                http_status=200 if succeeded else 0,
                latency_ms=round(1000 * (self._clock() - self._began)),
                api_key_id=self._api_key_id,
                hand_off_summary=self._summary,
                usage_estimated=True,
                final=True,
            )
        ]

    def _in_flight(self) -> Target:
        """The target that the executor was calling when it was stopped."""
        targets = list(in_order(self._plan)) or [Target()]
        if self._last is None:
            return targets[0]
        ids = [target.target_id for target in targets]
        if self._last.next_target_id in ids:
            return targets[ids.index(self._last.next_target_id)]
        after = ids.index(self._last.target_id) + 1 if self._last.target_id in ids else 0
        return targets[min(after, len(targets) - 1)]


def in_order(plan: Plan) -> Iterator[Target]:
    """Every target of a plan in the order in which it would be called."""
    for target in plan.targets:
        yield from _with_fallbacks(target)
    if plan.HasField("judge"):
        yield from _with_fallbacks(plan.judge)
    for step in plan.steps:
        yield from _with_fallbacks(step.target)


def _with_fallbacks(target: Target) -> Iterator[Target]:
    if target.HasField("nested"):
        yield from in_order(target.nested)
    else:
        yield target
    for fallback in target.fallbacks:
        yield from _with_fallbacks(fallback)
