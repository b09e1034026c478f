"""TLS and mutual TLS for both ends of a gRPC connection, from files."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import grpc

from service_kit.settings import SettingsError


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files. Server: ``cert`` and ``key``; a ``ca`` makes client certificates compulsory.

    Client: ``ca`` verifies the server (unset: the system's roots); ``cert`` and ``key`` are its own identity.
    """

    cert: Path | None = None
    key: Path | None = None
    ca: Path | None = None


def from_paths(cert: str | Path | None, key: str | Path | None, ca: str | Path | None) -> TlsFiles | None:
    """None when nothing is set. Raises SettingsError when only one of certificate and key is."""
    if bool(cert) != bool(key):
        raise SettingsError("TLS_CERT and TLS_KEY: only one is set; allowed: both or none")
    if not (cert or ca):
        return None
    return TlsFiles(*(Path(path) if path else None for path in (cert, key, ca)))


def server_credentials(files: TlsFiles) -> grpc.ServerCredentials:
    """Certificates are read again when the files change: a renewed one serves the next handshake, without a restart."""
    loaded = _stamp(files)
    current = _configuration(files)

    def fetch() -> grpc.ServerCertificateConfiguration:
        nonlocal loaded, current
        with suppress(SettingsError):  # half-written or gone: the last good ones stay in use
            stamp = _stamp(files)
            if stamp != loaded:
                loaded, current = stamp, _configuration(files)
        return current

    return grpc.dynamic_ssl_server_credentials(current, fetch, require_client_authentication=files.ca is not None)


def channel_credentials(files: TlsFiles) -> grpc.ChannelCredentials:
    return grpc.ssl_channel_credentials(
        root_certificates=_bytes(files.ca), private_key=_bytes(files.key), certificate_chain=_bytes(files.cert)
    )


def _configuration(files: TlsFiles) -> grpc.ServerCertificateConfiguration:
    key, cert = _bytes(files.key), _bytes(files.cert)
    if key is None or cert is None:
        raise SettingsError("TLS_CERT and TLS_KEY: not set; allowed: both, for a server that is given TLS_CA")
    return grpc.ssl_server_certificate_configuration([(key, cert)], root_certificates=_bytes(files.ca))


def _stamp(files: TlsFiles) -> tuple[int, ...]:
    try:
        return tuple(path.stat().st_mtime_ns for path in (files.cert, files.key, files.ca) if path)
    except OSError as error:
        raise SettingsError(f"TLS file {error.filename}: {error.strerror}") from error


def _bytes(path: Path | None) -> bytes | None:
    try:
        return path.read_bytes() if path else None
    except OSError as error:
        raise SettingsError(f"TLS file {error.filename}: {error.strerror}") from error
