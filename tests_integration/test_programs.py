"""Programs that are not models: data-dependent branches, prints, closures, in-place updates, dynamic sizes."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable

import pytest
import torch

import capture
import meta
from tests_integration.zoo import Mlp


def test_data_dependent_branches() -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x = x * 2
        if x.sum() > 0:
            y = y + x
            if y.max() > 3:
                y = y / y.max()
        else:
            y = y - x
        return y.relu() + 1

    compiled = meta.compile(fn)
    for seed in range(8):
        torch.manual_seed(seed)
        x, y = torch.randn(5), torch.randn(5) * 3
        torch.testing.assert_close(compiled(x, y), fn(x, y))


def test_what_is_printed_is_printed_at_each_call(capsys: pytest.CaptureFixture[str]) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        print("middle", tuple(y.shape))
        return y.cos()

    x = torch.randn(4)
    torch.testing.assert_close(meta.compile(fn)(x), x.sin().cos())
    assert capsys.readouterr().out == "middle (4,)\n"
    compiled = meta.compile(fn, fullgraph=True)
    for _ in range(2):
        compiled(x)
    assert capsys.readouterr().out == "middle (4,)\n" * 2
    with pytest.raises(Exception, match="print"):
        meta.compile(lambda x: (print(x), x + 1), fullgraph=True)(x)


class Running:
    """A class with closures and in-place updates of its tensors, lists and dictionaries."""

    def __init__(self) -> None:
        self.total = torch.zeros(3)
        self.history: list[torch.Tensor] = []
        self.counts = {"calls": 0}

    def updater(self, scale: float) -> Callable[[torch.Tensor], torch.Tensor]:
        calls = 0

        def update(x: torch.Tensor) -> torch.Tensor:
            nonlocal calls
            calls += 1
            self.total.add_(x * scale)
            self.history.append(x + calls)
            self.counts["calls"] += 1
            x.mul_(2)
            return self.total * x

        return update


def test_closures_and_in_place_updates() -> None:
    ours, theirs = Running(), Running()
    mine, eagers = meta.compile(ours.updater(0.5)), theirs.updater(0.5)
    for seed in range(4):
        torch.manual_seed(seed)
        x = torch.randn(3)
        y = x.clone()
        torch.testing.assert_close(mine(x), eagers(y))
        torch.testing.assert_close(x, y)
    torch.testing.assert_close(ours.total, theirs.total)
    torch.testing.assert_close(ours.history, theirs.history)
    assert ours.counts == theirs.counts


def test_dynamic_mlp_compiles_once_for_all_batches() -> None:
    torch.manual_seed(0)
    module = Mlp()
    graphs = 0

    def backend(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Callable[..., object]:
        nonlocal graphs
        graphs += 1
        return meta.backends.inductor(graph, inputs)

    compiled = meta.compile(module, backend=backend, dynamic=True)
    for batch in range(2, 65):
        x = torch.randn(batch, 64)
        torch.testing.assert_close(compiled(x), module(x))
    assert graphs == 1


def test_an_exception_is_the_users() -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        z = x + 1
        return z @ y

    with pytest.raises(RuntimeError) as eager:
        fn(torch.randn(2, 3), torch.randn(2, 3))
    with pytest.raises(RuntimeError) as ours:
        meta.compile(fn)(torch.randn(2, 3), torch.randn(2, 3))
    assert type(ours.value) is type(eager.value)
    assert str(ours.value) == str(eager.value)
    assert any(entry.name == "fn" for entry in ours.traceback)


def test_grad_mode_is_guarded() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    compiled = meta.compile(fn)
    x = torch.randn(3, requires_grad=True)
    with torch.no_grad():
        assert not compiled(x).requires_grad
    assert compiled(x).requires_grad
    assert not compiled(x.detach()).requires_grad


def test_the_mlp_leaves_torchs_compiler_unimported() -> None:
    program = """
import sys, torch, capture, meta
from tests_integration.zoo import Mlp
capture.config.on_error = "raise"
module = Mlp()
compiled = meta.compile(module)
compiled(torch.randn(4, 64)).sum().backward()
with torch.no_grad():
    compiled(torch.randn(4, 64))
print([name for name in ("torch._dynamo", "torch._inductor") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[]"


def test_explain_names_breaks_with_the_users_line() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        compile("0", "", "eval")
        return y * 2

    text = str(meta.explain(fn, torch.randn(3)))
    assert "open" in text
    assert "test_programs.py" in text
    assert capture.config.on_error == "raise"


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_floats_computed_from_symbolic_sizes(backend: str) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        rows, columns = x.shape
        return x / columns**0.5 + math.sqrt(rows) - rows / 3 + (columns / 2) // 1

    compiled = meta.compile(program, backend=backend, dynamic=True)
    for rows in (3, 5, 8):
        x = torch.randn(rows, rows + 1)
        torch.testing.assert_close(compiled(x), program(x))


@pytest.mark.parametrize("weighed", [False, True])
def test_a_result_that_an_operator_leaves_out(weighed: bool) -> None:
    """Attention's one kernel of inference gives no weights where none are asked for; its shape rule, an empty tensor."""
    attention = torch.nn.MultiheadAttention(8, 2, batch_first=True).eval()
    x = torch.randn(2, 5, 8)

    def fn(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
        return attention(x, x, x, need_weights=weighed)

    with torch.no_grad():
        torch.testing.assert_close(meta.compile(fn)(x), fn(x))
