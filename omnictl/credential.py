"""A provider's credential, from where no shell history and no list of processes shows it."""

from __future__ import annotations

import sys
from dataclasses import astuple, dataclass
from typing import Annotated, Any

import typer

from omnictl import changes, documents
from omnictl.problems import wrong_usage
from omnictl.settings import environment
from omniroute.registry.v1 import registry_pb2 as pb

WAYS = "--api-key-env, --api-key-file, --reference, --oauth-file or --no-credential"


def _way(help_: str, *names: str) -> Any:
    return typer.Option(*names, help=help_, rich_help_panel="Credential (one of them)")


@dataclass(frozen=True, slots=True)
class CredentialOptions:
    """Where the credential comes from; it is sent once, encrypted at rest and never shown again."""

    api_key_env: Annotated[str, _way("Variable of this shell that holds the API key.")] = ""
    api_key_file: Annotated[str, _way("File that holds the API key; - for standard input.")] = ""
    reference: Annotated[str, _way("env:NAME or file:/path that the executor reads by itself; no secret is sent.")] = ""
    oauth_file: Annotated[str, _way("YAML or JSON file: access_token, refresh_token, expires_at, token_url ...")] = ""
    no_credential: Annotated[bool, _way("It needs none: a provider of class local.", "--no-credential")] = False

    def given(self) -> pb.CredentialInput | None:
        """The credential that the options name; None when they name none. Raises CommandError."""
        named = sum(map(bool, astuple(self)))
        if named > 1:
            raise wrong_usage(f"{named} credentials are given; allowed: one of {WAYS}")
        if self.reference:
            return pb.CredentialInput(reference=self.reference)
        if self.oauth_file:
            oauth, _ = changes.from_file(self.oauth_file, pb.OAuthCredential(), ())
            return pb.CredentialInput(oauth=oauth)
        if self.no_credential:
            return pb.CredentialInput(none=pb.NoCredential())
        return pb.CredentialInput(api_key=self._api_key()) if named else None

    def required(self) -> pb.CredentialInput:
        """The same; an API key is asked for when the options name nothing. Raises CommandError."""
        return self.given() or pb.CredentialInput(api_key=_asked_for())

    def _api_key(self) -> str:
        if self.api_key_env:
            return _sound(environment().get(self.api_key_env, ""), f"variable {self.api_key_env}")
        try:
            return _sound(documents.read_bytes(self.api_key_file).decode(), self.api_key_file)
        except UnicodeDecodeError:
            raise wrong_usage(f"{self.api_key_file}: not UTF-8; allowed: a file with the API key alone") from None


def _asked_for() -> str:
    """At a terminal it is typed without being shown; else it is the first line of standard input."""
    if sys.stdin.isatty():
        return _sound(typer.prompt("API key", hide_input=True, err=True), "the typed API key")
    return _sound(sys.stdin.readline(), f"standard input, read since none of {WAYS} is given")


def _sound(text: str, where: str) -> str:
    key = text.strip()
    if not key:
        raise wrong_usage(f"{where}: empty; allowed: an API key")
    return key
