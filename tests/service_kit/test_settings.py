"""Settings: values by type, and errors that name variable, shape and what is allowed."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from service_kit import addresses
from service_kit.settings import SettingsError, read


@dataclass(frozen=True)
class Sample:
    name: str
    port: int = field(default=1, metadata={"least": 0, "most": 65_535})
    rate: float = 0.5
    loud: bool = False
    folder: Path = Path("data")
    limit: int | None = None
    hosts: tuple[str, ...] = ()
    numbers: tuple[int, ...] = (1,)
    level: str = field(default="info", metadata={"choices": ("debug", "info")})
    token: str = field(default="", metadata={"secret": True, "choices": ("right",)})
    fast: bool = field(default=False, metadata={"also": "GO_FAST"})


def test_every_type_is_read() -> None:
    environ = {
        "OMNIROUTE_NAME": " a ",
        "OMNIROUTE_PORT": "8080",
        "OMNIROUTE_RATE": "0.25",
        "OMNIROUTE_LOUD": "Yes",
        "OMNIROUTE_FOLDER": "/somewhere/x",
        "OMNIROUTE_LIMIT": "7",
        "OMNIROUTE_HOSTS": "a, b,,c",
        "OMNIROUTE_NUMBERS": "1,2",
        "OMNIROUTE_LEVEL": "debug",
        "OTHER_PORT": "9",
    }
    expected = Sample("a", 8080, 0.25, True, Path("/somewhere/x"), 7, ("a", "b", "c"), (1, 2), "debug")
    assert read(Sample, environ) == expected


def test_unset_and_empty_variables_leave_the_defaults() -> None:
    assert read(Sample, {"OMNIROUTE_NAME": "a", "OMNIROUTE_PORT": "", "OMNIROUTE_LIMIT": " "}) == Sample("a")


@pytest.mark.parametrize(
    ("environ", "fast"),
    [
        ({"GO_FAST": "true"}, True),
        ({"OMNIROUTE_FAST": "false", "GO_FAST": "true"}, False),
        ({"OMNIROUTE_FAST": " ", "GO_FAST": "true"}, True),
    ],
)
def test_a_second_variable_is_read_when_the_first_is_not_set(environ: dict[str, str], fast: bool) -> None:
    assert read(Sample, {"OMNIROUTE_NAME": "a", **environ}).fast is fast


def test_an_error_names_the_variable_that_was_read() -> None:
    with pytest.raises(SettingsError, match=r"^GO_FAST: got 'maybe'; allowed: true or false$"):
        read(Sample, {"OMNIROUTE_NAME": "a", "GO_FAST": "maybe"})


def test_another_prefix() -> None:
    assert read(Sample, {"X_NAME": "b"}, prefix="X_").name == "b"


@pytest.mark.parametrize(
    ("variable", "text", "told"),
    [
        ("PORT", "eighty", "OMNIROUTE_PORT: got 'eighty'; allowed: a whole number at least 0 and at most 65535"),
        ("PORT", "65536", "OMNIROUTE_PORT: got '65536'; allowed: a whole number at least 0 and at most 65535"),
        ("RATE", "nan", "OMNIROUTE_RATE: got 'nan'; allowed: a finite number"),
        ("LOUD", "perhaps", "OMNIROUTE_LOUD: got 'perhaps'; allowed: true or false"),
        ("LIMIT", "1.5", "OMNIROUTE_LIMIT: got '1.5'; allowed: a whole number"),
        ("NUMBERS", "1,x", "OMNIROUTE_NUMBERS: got '1,x'; allowed: a comma-separated list, each item a whole number"),
        ("LEVEL", "loud", "OMNIROUTE_LEVEL: got 'loud'; allowed: debug | info"),
        ("TOKEN", "hunter2", "OMNIROUTE_TOKEN: got a secret of 7 characters; allowed: right"),
    ],
)
def test_a_bad_value_is_told_with_variable_shape_and_what_is_allowed(variable: str, text: str, told: str) -> None:
    with pytest.raises(SettingsError) as error:
        read(Sample, {"OMNIROUTE_NAME": "a", f"OMNIROUTE_{variable}": text})
    assert str(error.value) == told


def test_a_missing_required_variable_is_named() -> None:
    with pytest.raises(SettingsError, match="OMNIROUTE_NAME: not set; allowed: a text"):
        read(Sample, {})


def test_a_long_value_is_shown_in_part() -> None:
    with pytest.raises(SettingsError) as error:
        read(Sample, {"OMNIROUTE_NAME": "a", "OMNIROUTE_PORT": "9" * 5_000})
    assert len(str(error.value)) < 200


@dataclass(frozen=True)
class Listening:
    bind: str = field(default="127.0.0.1:1", metadata=addresses.PLACE)


@pytest.mark.parametrize("text", ["127.0.0.1:0", "localhost:50051", "[::]:50051", "0.0.0.0:65535"])
def test_a_place_to_listen(text: str) -> None:
    assert read(Listening, {"OMNIROUTE_BIND": text}).bind == text


@pytest.mark.parametrize("text", ["nonsense", ":50051", "host:", "host:x", "host:65536", "50051"])
def test_what_is_no_place_to_listen_is_refused_by_name(text: str) -> None:
    with pytest.raises(SettingsError, match=r"OMNIROUTE_BIND: .*host:port"):
        read(Listening, {"OMNIROUTE_BIND": text})
