"""Checks with real models, for people and not for CI: ``python -m tests.smoke live``, ``remote URL``, ``real-model``.

Exit status: 0 when all is well or nothing can be checked, 1 when something failed, 2 for wrong usage.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

import httpx
import openai

from omnictl.printing import say
from service_kit.lifecycle import Fatal
from tests.smoke import modes, real_model, table
from tests.smoke.checks import Row
from tests.smoke.gateway import Refused
from tests.smoke.hidden import Hidden

EXPECTED = (Fatal, Refused, real_model.NotAnswered, openai.APIError, httpx.HTTPError, TimeoutError)


async def main(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    """The exit status; what is wrong is one line. SIGTERM is taken like Ctrl-C: what was started is stopped first."""
    given = _parser().parse_args(arguments)
    hidden = Hidden(environ, [urlsplit(given.url).password or ""] if "url" in given else [])
    task = asyncio.current_task()
    assert task is not None
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        status: int = await given.act(given, environ, hidden)
        return status
    except EXPECTED as error:
        say(hidden.text(f"{given.name}: failed: {error or type(error).__name__}"))
        return 1
    finally:
        loop.remove_signal_handler(signal.SIGTERM)


async def _live(given: Namespace, environ: Mapping[str, str], hidden: Hidden) -> int:
    return _told(await modes.live(_wanted(given), environ), hidden)


async def _remote(given: Namespace, environ: Mapping[str, str], hidden: Hidden) -> int:
    return _told(await modes.remote(given.url, _wanted(given), environ), hidden)


async def _real_model(_given: Namespace, environ: Mapping[str, str], _hidden: Hidden) -> int:
    absent = real_model.missing()
    if absent:
        say(f"run-real-model: failed: {', '.join(absent)} not installed; `make run-real-model` does it")
        return 1
    async with real_model.running(environ) as gateway:
        await real_model.chat(gateway, say)
    say("run-real-model: ok")
    return 0


def _wanted(given: Namespace) -> modes.Wanted:
    return modes.Wanted(tuple(given.model), given.max_tokens, given.failover)


def _told(rows: Sequence[Row], hidden: Hidden) -> int:
    if rows:
        table.show(rows, hidden)
    return int(modes.failed(rows))


def _parser() -> ArgumentParser:
    parser = ArgumentParser(prog="python -m tests.smoke", allow_abbrev=False)
    kinds = parser.add_subparsers(required=True)
    asked = ArgumentParser(add_help=False)
    asked.add_argument("--model", action="append", default=[], type=_model, help="provider/model; may be given again")
    asked.add_argument("--max-tokens", type=int, default=modes.MAX_TOKENS, help="of each answer")
    live = kinds.add_parser("live", parents=[asked], help="start the services, with the environment's provider keys")
    live.set_defaults(act=_live, name="smoke-live", failover=True)
    remote = kinds.add_parser("remote", parents=[asked], help=f"a gateway that runs; its API key is in {modes.KEY}")
    remote.add_argument("url", type=_url)
    remote.add_argument("--failover", action="store_true", help="store a policy that has to fail over, and remove it")
    remote.set_defaults(act=_remote, name="smoke-remote")
    model = kinds.add_parser("real-model", help="chat with a small model on this machine")
    model.set_defaults(act=_real_model, name="run-real-model")
    return parser


def _url(text: str) -> str:
    if urlsplit(text).scheme not in ("http", "https") or not urlsplit(text).hostname:
        raise ArgumentTypeError("allowed: http://host:port or https://host")
    return text


def _model(text: str) -> str:
    if not all(text.partition("/")):
        raise ArgumentTypeError("allowed: provider/model")
    return text


if __name__ == "__main__":
    try:
        sys.exit(asyncio.run(main(sys.argv[1:], dict(os.environ))))
    except (KeyboardInterrupt, asyncio.CancelledError):
        sys.exit("stopped")
