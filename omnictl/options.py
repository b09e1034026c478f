"""Options that many commands share, each group of them one dataclass."""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

SERVICE_PANEL = "Service"


def _service(help_: str, *names: str, **more: Any) -> Any:
    return typer.Option(*names, help=help_, rich_help_panel=SERVICE_PANEL, **more)


@dataclass(frozen=True, slots=True)
class Remote:
    """Which decision service a command talks to, and how it shows the answer; None: as the environment says."""

    address: Annotated[str | None, _service("host:port of the service (OMNIROUTE_DECISION_ADDRESS).")] = None
    token: Annotated[
        str | None, _service("Admin token; better in OMNIROUTE_ADMIN_TOKEN than in the shell's history.")
    ] = None
    timeout: Annotated[float | None, _service("Seconds that a call may take; 10 if unset.", min=0.001, max=3600)] = None
    tls_ca: Annotated[
        Path | None, _service("PEM file that verifies the service; TLS is then used (OMNIROUTE_TLS_CA).")
    ] = None
    tls_cert: Annotated[Path | None, _service("PEM file with an own certificate (OMNIROUTE_TLS_CERT).")] = None
    tls_key: Annotated[Path | None, _service("PEM file with its key (OMNIROUTE_TLS_KEY).")] = None
    json: Annotated[bool, _service("JSON for programs instead of tables for people.", "--json")] = False


def example(arguments: str) -> str:
    """What stands below the help of a command."""
    return f"Example: `omnictl {arguments}`"


def spread(command: Callable[..., None]) -> Callable[..., None]:
    """A command whose parameters of a dataclass type are, on the command line, the fields of that dataclass.

    A field that is not given after the command has the value that was given for it before the command.
    """
    own = inspect.signature(command, eval_str=True).parameters.values()
    groups: dict[str, Any] = {p.name: p.annotation for p in own if dataclasses.is_dataclass(p.annotation)}
    context = next((p.name for p in own if p.annotation is typer.Context), "")

    def run(ctx: typer.Context, **given: Any) -> None:
        outer = ctx.obj or {}
        for name, group in groups.items():
            fields = {field.name: given.pop(field.name) for field in dataclasses.fields(group)}
            given[name] = group(**{key: fields[key] or outer.get(key, fields[key]) for key in fields})
        command(**given, **({context: ctx} if context else {}))

    flat = [
        inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context),
        *(p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own if p.name not in (context, *groups)),
        *(parameter for group in groups.values() for parameter in _parameters(group)),
    ]
    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__signature__ = inspect.Signature(flat)  # type: ignore[attr-defined]
    return run


def _parameters(group: type) -> list[inspect.Parameter]:
    hints = typing.get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=hints[field.name]
        )
        for field in dataclasses.fields(group)
    ]
