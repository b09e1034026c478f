"""``omnictl simulate``: the routing kernel on a file, without server or network."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Annotated

import orjson
import typer

from decision_service.scenario import read_scenario, run
from omnictl import documents
from omnictl.options import example, spread
from omnictl.problems import wrong_usage
from service_kit.errors import ServiceError

app = typer.Typer()


@dataclass(frozen=True, slots=True)
class Answers:
    """How the answers are written."""

    json: Annotated[bool, typer.Option("--json", help="JSON lines: as without it.")] = False


@app.command("simulate", rich_help_panel="Offline", epilog=example("simulate scenario.yaml"))
@spread
def simulate(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Scenario, YAML or JSON; - for standard input.")],
    answers: Answers,
) -> None:
    """Run a scenario through the real kernel, offline: one JSON line on standard output for each decide event.

    A bad scenario ends with exit status 2 and one line that names the field.
    """
    out = sys.stdout.buffer
    try:
        for answer in run(read_scenario(documents.read(file))):
            out.write(orjson.dumps(answer, option=orjson.OPT_APPEND_NEWLINE))
    except orjson.JSONEncodeError as error:
        raise wrong_usage(f"{file}: an answer cannot be written as JSON: {error}") from None
    except ServiceError as refused:
        raise wrong_usage(refused.message) from None
    finally:
        out.flush()
