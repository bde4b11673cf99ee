"""Every reason that the capture gives has a cause, with what to do, and a place in docs/breaks.md."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import capture
from capture.causes import CAUSES, PAGE, page_text

ROOT = Path(__file__).parents[3]
#: What is raised or called with a reason as its first argument, or after an object.
TELLING = {
    "Unsupported": 0,
    "SkipFrame": 0,
    "SkipCall": 0,
    "Break": 0,
    "GraphRefused": 0,
    "CannotReconstruct": 1,
    "leave": 1,
}


def text_of(node: ast.expr) -> str | None:
    """A text as it is written, with names for what is put in."""
    match node:
        case ast.Constant(str(value)):
            return value
        case ast.JoinedStr(values):
            parts = [text_of(each) if isinstance(each, ast.Constant) else "Name" for each in values]
            return "".join(part or "" for part in parts)
        case ast.BinOp(left, ast.Add(), right):
            return (text_of(left) or "") + (text_of(right) or "")
        case ast.IfExp(_, body, _):
            return text_of(body)
    return None


def reasons() -> Iterator[tuple[str, str]]:
    """(where, reason) of all that the package can give as a reason."""
    for file in sorted((ROOT / "packages/capture/src/capture").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if not isinstance(node, ast.Call):
                continue
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            told = [keyword.value for keyword in node.keywords if name == "refuses" and keyword.arg == "why"]
            if name in TELLING and len(node.args) > TELLING[name]:
                told.append(node.args[TELLING[name]])
            for each in told:
                text = text_of(each)
                if text:
                    yield f"{file.name}:{node.lineno}", text


def test_every_reason_has_a_cause_that_says_more_than_that_it_is_not_followed() -> None:
    told = [(where, text, capture.cause_of(text).id) for where, text in reasons()]
    assert len(told) > 250, "they are not found any more"
    vague = [f"{where}: {text}" for where, text, found in told if found == CAUSES[-1].id]
    assert len(vague) <= len(told) * 0.15, "\n".join(vague)


@pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: cause.id)
def test_each_is_told_apart_and_says_what_to_do(cause: capture.Cause) -> None:
    assert capture.cause_of(cause.example) is cause
    assert capture.cause_of(f"/a/file.py:12 in Some.method: {cause.example}") is cause
    assert cause.why.endswith(".") and cause.remedy.endswith(".") and cause.title
    assert re.fullmatch(r"[BSF]\d{3}", cause.id) and cause.id[0] == cause.kind[0].upper()


def test_ids_are_given_once() -> None:
    assert not [each for each, count in Counter(cause.id for cause in CAUSES).items() if count > 1]


def test_the_page_is_the_table() -> None:
    assert (ROOT / PAGE).read_text() == page_text(), "python -m capture causes > docs/breaks.md"
    for cause in CAUSES:
        assert f"### {cause.id}\n" in page_text() and cause.page.endswith(cause.id.lower())
