"""`python -m capture explain script.py`: the script runs as it would, and the report says what of it was captured."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch

import capture
from capture.__main__ import main

SCRIPT = """
    import sys
    import torch
    import other_file

    class Net(torch.nn.Module):
        def forward(self, x):
            if x.sum() > 0:
                return x * 2
            return x[:1]

    def scale(x, k):
        return x * k

    fast = torch.compile(scale, fullgraph=True)

    def main():
        net = Net()
        print("script", sys.argv[1:], __name__, net(torch.ones(2)).tolist(), other_file.number)
        for k in (1.5, 2.5):
            fast(torch.ones(3), k)
        print(sorted(locals()))

    if __name__ == "__main__":
        main()
        sys.exit(7)
"""


def test_a_script_is_run_and_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(SCRIPT))
    (tmp_path / "other_file.py").write_text(
        "import torch\ndef f(x):\n    return x + 1\nnumber = f(torch.ones(1)).item()\n"
    )
    argv, path, theirs = list(sys.argv), list(sys.path), vars(torch)["compile"]
    status = main(["explain", "--graphs", str(script), "--rate", "3"])
    assert (sys.argv, sys.path, vars(torch)["compile"]) == (argv, path, theirs)
    said = capsys.readouterr().out
    assert status == 7
    assert "script ['--rate', '3'] __main__ [2.0, 2.0] 2.0" in said
    assert "['k', 'net']" in said
    head, _, apart = said.partition("compiled by the script, ")
    for words in (
        f"{script}: 1 function captured as 2 graphs of 3 operations;",
        "Net.forward\n    graph of 2 operations (x)\n        ",
        "B101 branch on a tensor's value  # script.py:8 in forward",
        "S801 ",
        "what to do:\n    B101 A decision by a tensor's value. ",
        "(docs/breaks.md#b101)",
    ):
        assert words in head, words
    assert "other_file" not in head.partition(": 1 function")[2], "what runs while it is imported is not captured"
    for words in (
        "in scale: 1 function captured as 2 graphs of 2 operations;",
        "k == 1.5, now 2.5; dynamic from now on: k",
    ):
        assert words in apart, words
    assert "break" not in apart.replace("0 breaks", "")


def test_a_script_that_fails_is_explained_as_far_as_it_came(tmp_path: Path) -> None:
    script = tmp_path / "failing.py"
    script.write_text("import torch\ndef f(x):\n    return x + 1\nf(torch.ones(2))\nraise SystemError('on purpose')\n")
    done = subprocess.run(
        [sys.executable, "-m", "capture", "explain", str(script)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 1
    assert "SystemError: on purpose" in done.stderr
    assert f"{script}: 1 function captured as 1 graph of 1 operations;" in done.stdout


def test_one_call_is_explained() -> None:
    def program(x: torch.Tensor, k: int = 2) -> torch.Tensor:
        y = x.sin() * k
        compile("0", "", "eval")
        return y.cos()

    seen = capture.explain(program)(torch.ones(2), k=3)
    assert isinstance(seen, capture.Trace)
    (ended,) = seen.breaks
    assert ended.cause.id == "B202" and ended.cause.page == "docs/breaks.md#b202"
    text = str(seen)
    assert "B202 call of a built-in" in text and f"\nwhat to do:\n    B202 {ended.cause.title}. " in text
    assert capture.explain(torch.nn.Linear(2, 2))(torch.ones(2)).graph_count == 1
    assert capture.explain(lambda: torch.ones(2) + 1).graph_count == 1
