"""The command ``llm``: chat completions, or the Responses API where ``responses`` is set. Each question is one command.

The command is run in this process, because its start takes longer than all else that it does.
"""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import llm
import openai
from click.testing import CliRunner
from llm.cli import cli

from tests.clients.heard import FOUND, LOOK_UP, Heard, Question, serve

FUNCTION = f'''
def {LOOK_UP}(q: str) -> str:
    """Looks something up."""
    return {FOUND!r}
'''
DEFAULTS: Any = openai.OpenAI.__init__.__kwdefaults__
DEFAULTS["max_retries"] = 0  # the command has no setting for it, and would wait
STATUS = re.compile(r"Error code: (\d+)")
USAGE = re.compile(r"Token usage: ([\d,]+) input, ([\d,]+) output")
CALL = re.compile(r"^Tool call: (\w+)\((.*)\)$", re.MULTILINE)
PLACE = "city, ants int"


def configured(question: Question) -> None:
    """The gateway as a model of the command, as its page of configuration says."""
    model: dict[str, Any] = {
        "model_id": "gateway",
        "model_name": question["model"],
        "api_key_name": "gateway",
        "api_base": f"{question['url']}/v1",
        "headers": question["headers"],
        "responses": question.get("responses", False),
        "supports_tools": True,
        "supports_schema": True,
        "vision": True,
    }
    (Path(llm.user_dir()) / "extra-openai-models.yaml").write_text(json.dumps([model]))


def prompt(question: Question, *more: str) -> Any:
    configured(question)
    how = [] if question.get("stream", True) else ["--no-stream"]
    asked = ["prompt", "-m", "gateway", "--key", question["key"], "--no-log", "--usage", *how, *more]
    return CliRunner().invoke(cli, [*asked, question["prompt"]])


def talk(question: Question) -> Heard:
    """The command runs the tool by itself until it is not called any more."""
    done = prompt(question, *(["--functions", FUNCTION, "--tools-debug"] if question["tools"] else []))
    heard = Heard(text=done.stdout.removesuffix("\n"))
    for name, arguments in CALL.findall(done.stderr):
        heard.call(name, json.loads(arguments.replace("'", '"')))
    usage = USAGE.search(done.stderr)
    if usage:
        heard.usage = (int(usage[1]), int(usage[2]))
    if done.exit_code:
        status = STATUS.search(done.stderr)
        heard.error = {"message": done.stderr, "status_code": int(status[1]) if status else None}
    return heard


def parse(question: Question) -> Heard:
    return Heard(value=json.loads(prompt(question, "--schema", PLACE).stdout))


def see(question: Question) -> Heard:
    picture = Path(llm.user_dir()) / "picture.png"
    picture.write_bytes(base64.b64decode(question["image"]))
    return Heard(text=prompt(question, "--attachment", str(picture)).stdout.strip())


if __name__ == "__main__":
    serve({"talk": talk, "parse": parse, "see": see})
