"""What an operator stores: one file a resource, over one kind of transaction."""

from decision_service.registry.registry import Change, Registry

__all__ = ["Change", "Registry"]
