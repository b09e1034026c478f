"""``omnictl``: the modules of ``omnictl.commands`` are its commands."""

from __future__ import annotations

import os
import pkgutil
import sys
from collections.abc import Sequence
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import NoReturn

import typer

from omnictl import commands
from omnictl.options import Remote, spread
from omnictl.problems import CommandError, wrong_usage

UP = "up"


def build(arguments: Sequence[str]) -> typer.Typer:
    """The whole command line, or of it only the command that ``arguments`` call, if its module has the same name.

    Each module's ``app`` is merged at the top. ``up`` and ``simulate`` so stay light beside the gRPC clients.
    """
    app = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown", pretty_exceptions_enable=False)
    app.callback()(spread(root))
    names = [module.name for module in pkgutil.iter_modules(commands.__path__)]
    for name in arguments[:1] if arguments and arguments[0] in names else names:
        app.add_typer(import_module(f"{commands.__name__}.{name}").app)
    return app


def root(ctx: typer.Context, remote: Remote) -> None:
    """Run OmniRoute, look into its routing decisions, and keep its policies."""
    ctx.obj = asdict(remote)


def main() -> None:
    """Run the command line. What it cannot do is one line on standard error, never a stack."""
    if sys.argv[1:2] != [UP]:  # whose services are to say what they like
        # Read when gRPC is imported: its core would write lines of its own beside ours.
        os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    try:
        build(sys.argv[1:])(prog_name="omnictl")
    except CommandError as error:
        _end(error)
    except UnicodeEncodeError:  # the text is not shown: it may be a secret
        _end(wrong_usage("an argument or variable: got a text that is not UTF-8; allowed: UTF-8"))
    except Exception as error:  # noqa: BLE001 - the edge of the process
        _end(CommandError(f"a mistake of the program: {type(error).__name__}{_place(error)}"))


def _end(error: CommandError) -> NoReturn:
    print(error.line(), file=sys.stderr)
    sys.exit(error.status)


def _place(error: Exception) -> str:
    """Where it was raised, for a report of the mistake."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return f" in {Path(trace.tb_frame.f_code.co_filename).name}, line {trace.tb_lineno}" if trace else ""


if __name__ == "__main__":
    main()
