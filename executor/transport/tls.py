"""Trust of upstream certificates."""

from __future__ import annotations

import ssl

from executor.transport.port import TransportLimits
from service_kit.settings import SettingsError


def client_context(limits: TransportLimits) -> ssl.SSLContext:
    """The system's roots, and those of ``ca_file`` beside them. Raises SettingsError when that file cannot be used."""
    context = ssl.create_default_context()
    if limits.ca_file:
        try:
            context.load_verify_locations(limits.ca_file)
        except OSError as error:  # SSLError is one too: the file holds no certificate
            text = (
                f"OMNIROUTE_UPSTREAM_CA: got {limits.ca_file!r} ({error.strerror}); allowed: a PEM file of certificates"
            )
            raise SettingsError(text) from error
    return context
