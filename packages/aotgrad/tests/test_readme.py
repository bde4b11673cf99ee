"""The README's example runs."""

from pathlib import Path

import pytest


def test_example(capsys: pytest.CaptureFixture[str]) -> None:
    readme = (Path(__file__).parents[1] / "README.md").read_text()
    example = readme.split("```python\n")[1].split("```")[0]
    names: dict[str, object] = {}
    exec(compile(example, "README.md", "exec"), names)
    assert "torch.ops.aten.addmm.default" in capsys.readouterr().out
    assert all(p.grad is not None for p in names["model"].parameters())
