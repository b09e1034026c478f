"""Trust of upstream certificates."""

from __future__ import annotations

import ssl

from executor.transport.port import TransportLimits


def client_context(limits: TransportLimits) -> ssl.SSLContext:
    """The system's roots, and those of ``ca_file`` beside them. Raises OSError when that file cannot be read."""
    context = ssl.create_default_context()
    if limits.ca_file:
        context.load_verify_locations(limits.ca_file)
    return context
