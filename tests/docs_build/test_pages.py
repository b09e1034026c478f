"""Generated parts within pages that are written by hand."""

from __future__ import annotations

import pytest

from docs_build.durations import spoken
from docs_build.pages import code, filled, table

PAGE = "before\n<!-- generated: one -->\nold\n<!-- end -->\nbetween\n<!-- generated: two -->\n<!-- end -->\nafter\n"
PARTS = {"one": lambda: "first\n", "two": lambda: "second"}


def test_parts_are_written_anew_and_the_rest_stays() -> None:
    fresh = filled(PAGE, PARTS)
    assert fresh == PAGE.replace("old", "first").replace("two -->\n", "two -->\nsecond\n")
    assert filled(fresh, PARTS) == fresh


@pytest.mark.parametrize(
    ("page", "told"),
    [
        (PAGE.replace("two -->", "three -->"), "'three' is none of one, two"),
        (PAGE.replace("<!-- generated: two -->\n<!-- end -->\n", ""), "wanted, once each: one, two"),
        (PAGE.replace("old\n<!-- end -->\n", "old\n"), "'one' has no end"),
        (PAGE.replace("<!-- end -->\nafter", "after"), "'two' has no end"),
        (PAGE + "<!-- generated: two -->\n<!-- end -->\n", "wanted, once each: one, two"),
    ],
)
def test_a_page_with_other_parts_is_refused(page: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        filled(page, PARTS)


def test_tables_and_words() -> None:
    assert table(("a", "b"), [("1", code("x", "y"))]) == "| a | b |\n|---|---|\n| 1 | `x`, `y` |"
    assert [spoken(ms) for ms in (0, 999, 90_000, 86_400_000)] == ["0s", "999ms", "1m30s", "1d"]
