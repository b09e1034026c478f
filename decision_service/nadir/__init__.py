"""Nadir, the remote router: asked which model of the pool a prompt needs, before the kernel decides.

What it answers is an input of the decision; when it does not answer, `rules` decides and the reason says why.
"""

from decision_service.kernel.model import Advice
from decision_service.nadir.asking import Nadir, StoredKeys, open_client
from decision_service.nadir.question import Question, question_of

EXPLAINED = Advice(failure="explain")
"""What an explanation is made with: it asks nobody."""

__all__ = ["EXPLAINED", "Nadir", "Question", "StoredKeys", "open_client", "question_of"]
