"""Outcomes and states on disk before a report is answered."""

from decision_service.journal.queue import JournalClosed, JournalFailed, JournalFull
from decision_service.journal.rows import OutcomeRow, StateRow
from decision_service.journal.writer import Journal

__all__ = ["Journal", "JournalClosed", "JournalFailed", "JournalFull", "OutcomeRow", "StateRow"]
