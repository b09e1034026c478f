"""Files that a person writes: YAML or JSON, from a path or from standard input."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import yaml

from omnictl.problems import CommandError, wrong_usage

STDIN = "-"
FLOAT = "tag:yaml.org,2002:float"
# Without libyaml the other one is slower and otherwise the same.
SAFE_LOADER: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Loader(SAFE_LOADER):  # type: ignore[misc, valid-type]
    """Reads ``1e-3`` as the number that it is in JSON and in YAML 1.2."""


Loader.add_implicit_resolver(
    FLOAT, re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)[eE][-+]?[0-9]+$"), list("-+.0123456789")
)


def name(path: str) -> str:
    """What an error calls the file."""
    return "standard input" if path == STDIN else path


def read_bytes(path: str) -> bytes:
    """What is in a file, or in standard input for ``-``. Raises CommandError."""
    try:
        return sys.stdin.buffer.read() if path == STDIN else Path(path).read_bytes()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise wrong_usage(f"{path}: {reason}") from None


def read(path: str) -> Any:
    """The plain values of a YAML or JSON file. Raises CommandError that names the place of a mistake."""
    try:
        text = read_bytes(path).decode("utf-8-sig")
        return _parse(text, only_json=path.endswith(".json"))
    except UnicodeDecodeError as error:
        raise wrong_usage(f"{name(path)}: byte {error.start} is not UTF-8; allowed: YAML or JSON in UTF-8") from None
    except RecursionError:
        raise wrong_usage(f"{name(path)}: nested too deeply") from None
    except (yaml.YAMLError, ValueError) as error:
        raise _unreadable(name(path), error) from None


def _parse(text: str, *, only_json: bool) -> Any:
    """JSON first where it looks like it: the same reading, many times faster than as YAML."""
    if only_json or text.lstrip()[:1] in ("{", "["):
        try:
            return json.loads(text)
        except json.JSONDecodeError:
            if only_json:
                raise
    return yaml.load(text, Loader)  # noqa: S506 - made of the safe loader


def _unreadable(file: str, error: Exception) -> CommandError:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark:
        mark = error.problem_mark
        return wrong_usage(f"{file}, line {mark.line + 1}, column {mark.column + 1}: {error.problem}")
    if isinstance(error, json.JSONDecodeError):
        return wrong_usage(f"{file}, line {error.lineno}, column {error.colno}: {error.msg}")
    return wrong_usage(f"{file}: {error}")
