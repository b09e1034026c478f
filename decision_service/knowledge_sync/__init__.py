"""Optional knowledge of models from outside: an arena's ratings and listed capabilities, kept in the store."""

from decision_service.knowledge_sync.sources import Source, sources
from decision_service.knowledge_sync.sync import KnowledgeSync, Pace, running

__all__ = ["KnowledgeSync", "Pace", "Source", "running", "sources"]
