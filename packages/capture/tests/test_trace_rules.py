"""What is captured is the user's: no generated code, no file of ours; and no user's file is left out for its folder's name."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
import torch

import capture
from symshapes import build_python

TEXT = "def double(x):\n    return x * 2\n"


@pytest.mark.parametrize("folder", ["src/capture", "src/meta", "capture", "inductor/codegen", "torch"])
def test_a_users_file_below_a_folder_of_that_name(tmp_path: Path, folder: str) -> None:
    path = tmp_path / folder / "model.py"
    path.parent.mkdir(parents=True)
    path.write_text(TEXT)
    spec = importlib.util.spec_from_file_location("users_model", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    compiled = capture.compile(module.double)
    torch.testing.assert_close(compiled(torch.ones(2)), torch.full((2,), 2.0))
    assert compiled.session.report.graph_count == 1


def test_generated_code_is_not_captured_but_what_it_calls() -> None:
    def users(x: Any) -> Any:
        return x + 1

    entry = build_python(
        "def entry(x):\n    return [users(v) * 2 for v in [x]][0]\n", {"users": users}, entry="entry", title="test"
    )
    compiled = capture.compile(entry)
    assert compiled(torch.ones(1)).item() == 4
    report = compiled.session.report
    assert report.graph_count == 1 and not report.skipped, "the hook passes it by without a question"


def test_generated_code_is_not_inlined() -> None:
    generated = build_python("def generated(x):\n    return x + 1\n", {}, entry="generated", title="test")

    def program(x: Any) -> Any:
        return generated(x * 2) * 3

    compiled = capture.compile(program)
    assert compiled(torch.ones(1)).item() == 9
    assert "generated code" in compiled.session.report.breaks[0].reason


def test_an_equal_function_of_the_users_is_captured() -> None:
    text = "def f(x):\n    return x + 1\n"
    ours = build_python(text, {}, entry="f", title="test")
    namespace: dict[str, Any] = {}
    exec(compile(text, "<users>", "exec", dont_inherit=True), namespace)
    assert ours.__code__ == namespace["f"].__code__
    compiled = capture.compile(namespace["f"])
    assert compiled(torch.ones(1)).item() == 2
    assert compiled.session.report.graph_count == 1


def test_code_made_from_text_belongs_to_its_module(tmp_path: Path) -> None:
    from capture.trace_rules import file_of, is_infrastructure

    made = compile("def f(x): return x", "<string>", "exec")
    assert is_infrastructure(file_of(made, {"__file__": __import__("fractions").__file__}))
    assert not is_infrastructure(file_of(made, {"__file__": str(tmp_path / "model.py")}))
    assert not is_infrastructure(file_of(made, {}))
    assert not is_infrastructure(file_of(made, {"__file__": capture.__file__})), "made of the user's callable"
