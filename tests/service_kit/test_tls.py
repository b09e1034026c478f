"""TLS and mutual TLS over loopback, with certificates made for the test."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

import grpc.aio
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from omniroute.decision.v1 import decision_pb2
from service_kit import tls
from service_kit.settings import SettingsError
from service_kit.tls import TlsFiles
from tests.service_kit.servicer import calling, serving


@dataclass(frozen=True)
class Authority:
    """Issues certificates into a folder."""

    folder: Path
    name: x509.Name
    key: ec.EllipticCurvePrivateKey

    @property
    def file(self) -> Path:
        return self.folder / "ca.pem"

    def issue(self, name: str) -> TlsFiles:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        cert = certificate(subject, key, self.name).add_extension(x509.SubjectAlternativeName(names), critical=False)
        files = TlsFiles(self.folder / f"{name}.pem", self.folder / f"{name}.key", self.file)
        assert files.cert is not None
        assert files.key is not None
        files.key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        files.cert.write_bytes(cert.sign(self.key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        return files


def certificate(subject: x509.Name, key: ec.EllipticCurvePrivateKey, issuer: x509.Name) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
    )


def authority(folder: Path, name: str = "Test authority") -> Authority:
    folder.mkdir(exist_ok=True)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    builder = certificate(subject, key, subject).add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
    made = Authority(folder, subject, key)
    made.file.write_bytes(builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    return made


async def works(port: int, files: TlsFiles | None) -> bool:
    try:
        async with calling(port, files) as stub:
            await stub.Decide(decision_pb2.DecideRequest(model="auto"), timeout=2)
    except grpc.aio.AioRpcError:
        return False
    return True


async def test_a_server_with_tls_is_reached_by_those_who_know_its_authority(tmp_path: Path) -> None:
    ours, foreign = authority(tmp_path / "ours"), authority(tmp_path / "foreign")
    server_files = ours.issue("server")
    async with serving(tls=TlsFiles(server_files.cert, server_files.key)) as server:
        assert await works(server.port, TlsFiles(ca=ours.file))
        assert not await works(server.port, TlsFiles(ca=foreign.file))
        assert not await works(server.port, None)


async def test_mutual_tls_lets_in_only_clients_of_the_authority(tmp_path: Path) -> None:
    ours, foreign = authority(tmp_path / "ours"), authority(tmp_path / "foreign")
    stranger = foreign.issue("client")
    async with serving(tls=ours.issue("server")) as server:
        assert await works(server.port, ours.issue("client"))
        assert not await works(server.port, TlsFiles(ca=ours.file))
        assert not await works(server.port, TlsFiles(stranger.cert, stranger.key, ours.file))


async def test_a_renewed_certificate_serves_without_a_restart(tmp_path: Path) -> None:
    old = authority(tmp_path)
    files = old.issue("server")
    async with serving(tls=TlsFiles(files.cert, files.key)) as server:
        assert await works(server.port, TlsFiles(ca=old.file))
        renewed = authority(tmp_path, "Another authority")
        renewed.issue("server")
        assert await works(server.port, TlsFiles(ca=renewed.file))
        assert files.cert is not None
        files.cert.unlink()
        assert await works(server.port, TlsFiles(ca=renewed.file))


def test_files_come_from_settings() -> None:
    assert tls.from_paths(None, "", None) is None
    assert tls.from_paths("c", "k", None) == TlsFiles(Path("c"), Path("k"))
    assert tls.from_paths(None, None, "a") == TlsFiles(ca=Path("a"))
    with pytest.raises(SettingsError, match="TLS_CERT and TLS_KEY: only one is set"):
        tls.from_paths("c", None, "a")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"absent\.pem: No such file"):
        tls.server_credentials(TlsFiles(tmp_path / "absent.pem", tmp_path / "absent.key"))
    with pytest.raises(SettingsError, match="TLS_CERT and TLS_KEY: not set"):
        tls.server_credentials(TlsFiles(ca=authority(tmp_path).file))
