"""Logs: one JSON object a line, request ids in, secrets out, other libraries' records in the same form."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from service_kit import calls, log

SECRET = "sk-abcdefghijklmnop"


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    yield
    structlog.reset_defaults()
    logging.basicConfig(force=True)


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


def test_an_event_is_one_json_line(capsys: pytest.CaptureFixture[str]) -> None:
    log.configure("decision")
    structlog.get_logger("somewhere").info("decided", model="auto", tokens=3)
    (line,) = lines(capsys)
    assert line.pop("timestamp")
    assert line == {
        "event": "decided", "level": "info", "logger": "somewhere", "model": "auto", "service": "decision", "tokens": 3,
    }  # fmt: skip


def test_the_level_is_kept(capsys: pytest.CaptureFixture[str]) -> None:
    log.configure("decision", "warning")
    structlog.get_logger().info("quiet")
    structlog.get_logger().warning("loud")
    assert [line["event"] for line in lines(capsys)] == ["loud"]


def test_the_request_id_of_the_current_call_is_in_every_line(capsys: pytest.CaptureFixture[str]) -> None:
    log.configure("decision")
    token = calls.CURRENT.set(calls.CallContext("r-1"))
    structlog.get_logger().info("inside")
    calls.CURRENT.reset(token)
    structlog.get_logger().info("outside")
    inside, outside = lines(capsys)
    assert inside["request_id"] == "r-1"
    assert "request_id" not in outside


def test_secrets_are_redacted_at_any_depth_and_other_keys_are_not(capsys: pytest.CaptureFixture[str]) -> None:
    log.configure("decision")
    structlog.get_logger().info(
        f"sent Bearer {SECRET}",
        api_key=SECRET,
        executor_token=SECRET,
        headers={"Authorization": SECRET, "list": [{"password": SECRET}]},
        text=f"key {SECRET} was refused",
        input_tokens=12,
        api_key_id="k1",
        token="",
    )
    text = capsys.readouterr().err
    assert SECRET not in text
    line = json.loads(text)
    assert (line["input_tokens"], line["api_key_id"], line["token"]) == (12, "k1", "")
    assert line["event"] == f"sent {log.REDACTED}"


def test_a_stack_holds_no_secret(capsys: pytest.CaptureFixture[str]) -> None:
    log.configure("decision")
    try:
        raise ValueError(SECRET)
    except ValueError:
        structlog.get_logger().exception("failed")
    text = capsys.readouterr().err
    assert "ValueError" in text
    assert SECRET not in text


def test_records_of_other_libraries_have_the_same_form(capsys: pytest.CaptureFixture[str]) -> None:
    log.configure("decision")
    logging.getLogger("library").warning("count %d, key %s", 3, SECRET, extra={"api_key": SECRET})
    (line,) = lines(capsys)
    assert line["event"] == f"count 3, key {log.REDACTED}"
    assert line["api_key"] == log.REDACTED
    assert (line["service"], line["level"], line["logger"]) == ("decision", "warning", "library")


def test_a_form_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    log.configure("decision", json=False)
    structlog.get_logger().info("decided", api_key=SECRET)
    text = capsys.readouterr().err
    assert "decided" in text
    assert SECRET not in text


def test_a_value_that_json_does_not_know_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    log.configure("decision")
    structlog.get_logger().info("odd", value=object)
    assert "<class 'object'>" in str(lines(capsys)[0]["value"])
