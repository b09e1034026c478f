"""Hand-offs of context-relay: a summary that goes along when a conversation moves to another connection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from decision_service.kernel.draft import Ask
from decision_service.kernel.live import Member
from decision_service.kernel.recall import Summary, summary_key
from decision_service.kernel.screening import unavailable


@dataclass(frozen=True, slots=True)
class HandOff:
    """A ``summary`` to put in front (empty: none), and whether one should be made by ``summarizer`` meanwhile."""

    summary: str
    summarize: bool
    summarizer: Member | None = None


def hand_off(chain: Sequence[Member], ask: Ask) -> HandOff | None:
    """What a decision hands over; None: nothing."""
    key = summary_key(ask.request, ask.combo)
    if ask.combo.strategy != "context-relay" or key is None:
        return None
    summary = ask.state.summaries.get(key)
    if summary is not None and ask.turn.now >= summary.until:
        summary = None
    if summary is not None and not _served_by(chain[0], summary):
        return HandOff(summary.text, summarize=False)
    if summary is None and len(chain) > 1 and _runs_low(chain[0], ask):
        return HandOff("", summarize=True, summarizer=_summarizer(ask))
    return None


def _summarizer(ask: Ask) -> Member | None:
    """The first available connection of the model that the policy names; None: who serves makes the summary."""
    return next((member for member in ask.pool.summarizers if unavailable(member, ask.turn.now) is None), None)


def _served_by(member: Member, summary: Summary) -> bool:
    return (member.candidate.provider, member.candidate.connection) == (summary.provider, summary.connection)


def _runs_low(member: Member, ask: Ask) -> bool:
    """The connection has used more of its quota than the threshold."""
    threshold = ask.combo.config.handoff_threshold
    remaining = member.account.remaining(ask.turn.now)
    return threshold > 0 and remaining is not None and 1.0 - remaining > threshold
