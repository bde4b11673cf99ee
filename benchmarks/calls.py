"""The suite `calls`: what a call costs beside its kernels, each line timed under every contender in this process, rounds interleaved.

A look-up runs a backend whose function returns a stored output; the other lines run the contenders as they come. Out: a
table, and how the cost of a call grows with the model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch import nn

from benchmarks.contenders import CONTENDERS
from benchmarks.measure import Sample, Timed, interleaved, seconds
from benchmarks.stored import stored_output
from benchmarks.workload import add_one

Step = Callable[[], object]
LAYERS = 24


def looked_up(contender: str, fn: Any) -> Any:
    """``fn`` compiled so that a call is the look-up alone; eager has none."""
    if contender == "torch.compile":
        torch._dynamo.config.recompile_limit = 64  # 24 layers may be as many variants
        return torch.compile(fn, backend=stored_output, fullgraph=True)
    import capture

    capture.config.on_error = "raise"
    return capture.compile(fn, stored_output, fullgraph=True)


def sequential(layers: int) -> tuple[nn.Module, torch.Tensor]:
    return nn.Sequential(*(nn.Linear(4, 4) for _ in range(layers))).eval(), torch.randn(2, 4)


def encoder(layers: int) -> tuple[nn.Module, torch.Tensor]:
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    return nn.TransformerEncoder(layer, layers, enable_nested_tensor=False).eval(), torch.randn(2, 3, 16)


def forget(contender: str) -> None:
    """Drop what the contender compiled: the peer compiles all of torch's modules as one function, with one list of variants."""
    if contender == "torch.compile":
        torch._dynamo.reset()
    elif contender == "ours":
        import capture

        capture.reset()


def look_up(build: Callable[[int], tuple[nn.Module, torch.Tensor]], layers: int) -> Callable[[str], Step]:
    module, x = build(layers)

    def make(contender: str) -> Step:
        run = looked_up(contender, module)
        return lambda: run(x)

    return make


def layers_in_turn(distinct: bool) -> Callable[[str], Step]:
    """`LAYERS` calls of a compiled layer: of equal ones in turn, or always of the same one."""
    module, x = encoder(LAYERS if distinct else 1)
    layers = list(module.layers) if distinct else [*module.layers] * LAYERS

    def make(contender: str) -> Step:
        compiled = {id(layer): looked_up(contender, layer) for layer in layers}
        calls = [compiled[id(layer)] for layer in layers]

        def step() -> None:
            for call in calls:
                call(x)

        return step

    return make


def addition(contender: str) -> Step:
    add, x = CONTENDERS[contender](add_one), torch.arange(8, dtype=torch.float32)
    return lambda: add(x)


def training(contender: str) -> Step:
    module = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
    run, parameters, x = CONTENDERS[contender](module), list(module.parameters()), torch.randn(4, 8)

    def step() -> None:
        for p in parameters:
            p.grad = None
        run(x).sum().backward()

    return step


@dataclass(frozen=True)
class Line:
    """A line of the table: `make(contender)` gives what is timed, ``iterations`` times a round."""

    make: Callable[[str], Step]
    iterations: int
    is_look_up: bool = True
    """Without gradients, and without eager."""


IN_TURN, ONE_LAYER = f"{LAYERS} equal layers in turn", f"one layer {LAYERS} times"
LINES: dict[str, Line] = {
    "look-up: Sequential of 2": Line(look_up(sequential, 2), 300),
    "look-up: Sequential of 200": Line(look_up(sequential, 200), 300),
    "look-up: encoder of 2": Line(look_up(encoder, 2), 300),
    "look-up: encoder of 32": Line(look_up(encoder, 32), 300),
    f"look-up: {IN_TURN}": Line(layers_in_turn(distinct=True), 30),
    f"look-up: {ONE_LAYER}": Line(layers_in_turn(distinct=False), 30),
    "x + 1": Line(addition, 2000, is_look_up=False),
    "training: two linear layers": Line(training, 50, is_look_up=False),
}
GROWTH = (
    ("look-up: Sequential of 200", "look-up: Sequential of 2"),
    ("look-up: encoder of 32", "look-up: encoder of 2"),
    (f"look-up: {IN_TURN}", f"look-up: {ONE_LAYER}"),
)


def show(contenders: Sequence[str], console: Console, rounds: int) -> list[dict[str, Any]]:
    """Time all lines and print them; the readings, in seconds a step."""
    read: dict[str, dict[str, Sample]] = {}
    for name, line in LINES.items():
        timed = [c for c in contenders if not (line.is_look_up and c == "eager")]
        for contender in timed:
            forget(contender)
        steps = {c: Timed(line.make(c), line.iterations) for c in timed}
        with torch.set_grad_enabled(not line.is_look_up):
            read[name] = interleaved(steps, rounds)
    shown = Table("call", *contenders, title="median (lowest..highest) ×ratio to torch.compile")
    for name, samples in read.items():
        shown.add_row(name, *(seconds(samples.get(c), samples.get("torch.compile")) for c in contenders))
    console.print(shown)
    grown = Table("ratio of medians", *contenders)
    for large, small in GROWTH:
        pairs = ((read[large].get(c), read[small].get(c)) for c in contenders)
        grown.add_row(f"{large} / {small}", *(f"×{a.median / b.median:.2f}" if a and b else "-" for a, b in pairs))
    console.print(grown)
    return [{"call": name, "contender": c, "step": asdict(s)} for name, each in read.items() for c, s in each.items()]
