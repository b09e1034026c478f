"""``python -m omnictl.demo``: the process of the demo providers."""

from __future__ import annotations

import asyncio
import os
import sys

from omnictl.demo.server import serve
from omnictl.demo.settings import DemoSettings
from service_kit import lifecycle, log, settings


async def main(stop: asyncio.Event) -> None:
    wanted = settings.read(DemoSettings, os.environ)
    log.configure("demo", wanted.log_level, wanted.log_json)
    await serve(wanted.demo_ports, stop)


if __name__ == "__main__":
    sys.exit(lifecycle.run(main))
