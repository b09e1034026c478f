"""``omnictl``: the modules of ``omnictl.commands`` are its commands."""

from __future__ import annotations

import pkgutil
import sys
from collections.abc import Sequence
from importlib import import_module

import typer

from omnictl import commands


def build(arguments: Sequence[str]) -> typer.Typer:
    """The whole command line, or of it only the command that ``arguments`` call, if its module has the same name.

    Each module's ``app`` is merged at the top. ``up`` so stays light beside the commands that are gRPC clients.
    """
    app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
    app.callback()(root)
    names = [module.name for module in pkgutil.iter_modules(commands.__path__)]
    for name in arguments[:1] if arguments and arguments[0] in names else names:
        app.add_typer(import_module(f"{commands.__name__}.{name}").app)
    return app


def root() -> None:
    """Run OmniRoute, and look into its routing decisions."""


def main() -> None:
    build(sys.argv[1:])(prog_name="omnictl")


if __name__ == "__main__":
    main()
