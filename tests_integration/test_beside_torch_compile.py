"""Compiled by us and by torch.compile in one call: each leaves the other's frames, and what the other generates, alone.

In a process of its own, since nothing else here may import torch's compiler.
"""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import torch, capture, meta
from torch._dynamo.utils import counters

capture.config.on_error = "raise"

def inner(x):
    y = torch.sin(x) * 2
    compile("0", "", "eval")
    return [y + 1, len(y.shape), y.cos()]

def outer(f, x):
    a, n, b = f(x + 1)
    return a.cos() - b * n

theirs = torch.compile(inner, backend="eager")
ours_around = meta.compile(lambda x: outer(theirs, x))
ours = meta.compile(inner)
theirs_around = torch.compile(lambda x: outer(ours, x), backend="eager")
sandwich = torch.compile(lambda x: ours_around(x * 2) + 1, backend="eager")
for size in (3, 4, 3):
    x = torch.randn(size)
    torch.testing.assert_close(ours_around(x), outer(inner, x))
    torch.testing.assert_close(theirs_around(x), outer(inner, x))
    torch.testing.assert_close(sandwich(x), outer(inner, x * 2) + 1)

report = ours_around.session.report
assert not report.skipped, report.skipped
assert report.graph_count <= 6, report
assert ours.session.report.graph_count == 4, ours.session.report
reasons = " ".join(counters["graph_break"])
assert "capture/" not in reasons and "inductor/" not in reasons and "aotgrad/" not in reasons, reasons
"""


def test_each_leaves_the_other_alone() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]


MODULES = """
import torch, capture

capture.config.on_error = "raise"
torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
assert torch.nn.Module.__init__.__name__ != "__init__"

class Layers(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Linear(3, 3) for _ in range(4)])

    def forward(self, x, count):
        for layer in self.layers[:count]:
            x = layer(x)
        return x

model, x = Layers(), torch.randn(2, 3)
assert torch.equal(capture.compile(model, fullgraph=True)(x, 2), model(x, 2))
"""


def test_modules_are_made_where_theirs_is_put_in_the_place_of_their_init() -> None:
    subprocess.run([sys.executable, "-W", "ignore", "-c", MODULES], check=True, timeout=120)


OPTIMIZERS = """
import torch, capture, meta

capture.config.on_error = "raise"
torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))

def stepping():
    parameter = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.LBFGS([parameter], max_iter=2)

    def closure():
        optimizer.zero_grad()
        loss = (parameter**2).sum()
        loss.backward()
        return loss

    return (lambda: optimizer.step(closure)), parameter

(eager, expected), (program, found) = stepping(), stepping()
step = meta.compile(program)
eager()
step()
assert {each.reason for each in meta.report(step).breaks} == {"branch on a tensor's value"}, meta.report(step).breaks
torch.testing.assert_close(found, expected)
"""


def test_optimizers_are_captured_though_theirs_keeps_itself_away_from_them() -> None:
    subprocess.run([sys.executable, "-W", "ignore", "-c", OPTIMIZERS], check=True, timeout=120)
