"""``python -m executor``: the executor service."""

from __future__ import annotations

import asyncio
import os
import sys

from executor.assembly import LAST_WORDS_S, serve
from executor.settings import Settings
from service_kit import lifecycle, log
from service_kit.settings import SettingsError, read

EXIT_MARGIN_S = 5.0


def main() -> int:
    try:
        settings = read(Settings, os.environ)
    except SettingsError as error:
        sys.stderr.write(f"{error}\n")
        return lifecycle.MISCONFIGURED
    log.configure("executor", settings.log_level, settings.log_json)

    async def run(stop: asyncio.Event) -> None:
        await serve(settings, os.environ, stop)

    return lifecycle.run(run, settings.executor_grace_s + LAST_WORDS_S + EXIT_MARGIN_S)


if __name__ == "__main__":
    sys.exit(main())
