"""The README's example runs."""

from pathlib import Path

import pytest


def test_example(capsys: pytest.CaptureFixture[str]) -> None:
    readme = (Path(__file__).parents[1] / "README.md").read_text()
    example = readme.split("```python\n")[1].split("```")[0]
    exec(compile(example, "README.md", "exec"), {})
    assert "def call(args):" in capsys.readouterr().out
