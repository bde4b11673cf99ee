"""One model in a process of its own: every contender compiles it once, then their steps are timed in turn.

In: an `Asked` as JSON, the one argument. Out: a `Reading` as JSON, the last line printed.
"""

from __future__ import annotations

import copy
import functools
import gc
import json
import math
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import nn

from benchmarks.contenders import CONTENDERS
from benchmarks.cpu.models import MODELS
from benchmarks.measure import Sample, Timed, interleaved, synchronise
from benchmarks.turns import await_turn
from symshapes import timed_phases
from tests_integration.accuracy import assert_as_accurate
from tests_integration.zoo import Inputs, loss_of, output_tensors

ROUND = 0.04
"""Seconds of a round, about: well above the clock's grain."""
LARGEST = 64.0
"""Of a scaled loss's gradients, about."""
Step = Callable[[], list[torch.Tensor]]


@dataclass(frozen=True)
class Asked:
    """`options`: those of each compiler, by contender; `rounds` 0: nothing is timed but the compiles; `whole`: models train with their
    dropout and AdamW, what random numbers are in is not compared; `optimizer`: AdamW's step is compiled, too, as a function of its own."""

    model: str
    contenders: tuple[str, ...]
    batch: int = 1
    train: bool = False
    dtype: str = "float32"
    options: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    rounds: int = 15
    threads: int = 2
    device: str = "cpu"
    whole: bool = False
    optimizer: bool = False

    @staticmethod
    def of(text: str) -> Asked:
        return Asked(**json.loads(text))


@dataclass
class Reading:
    """By contender: seconds of a step; seconds of the first call less a step, as the caches were found; the largest difference
    from eager over eager's largest value; what was wrong or raised; on a GPU the peak of allocated bytes in a step. `phases`: seconds
    of our first call, by what they were spent on."""

    asked: Asked
    step: dict[str, Sample] = field(default_factory=dict)
    compile: dict[str, float] = field(default_factory=dict)
    difference: dict[str, float] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    phases: dict[str, float] = field(default_factory=dict)
    memory: dict[str, int] = field(default_factory=dict)


def converted(value: Any, dtype: torch.dtype, device: str) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    return value.to(device, dtype) if value.is_floating_point() else value.to(device)


def step_of(
    module: nn.Module,
    run: Callable[..., Any],
    inputs: Inputs,
    train: bool,
    optimised: bool = False,
    scale: float = 1.0,
    update: Callable[[Any], Any] = lambda step: step,
) -> Step:
    """Inference, or forward, loss (times `scale`) and backward (`optimised`: and AdamW's step, as `update` makes it); what a step returns is
    compared: outputs, and in training the gradients."""
    args, kwargs = inputs
    parameters = [p for p in module.parameters() if p.requires_grad]
    advance = update(torch.optim.AdamW(parameters, lr=1e-6).step) if optimised else None

    def infer() -> list[torch.Tensor]:
        with torch.no_grad():
            return output_tensors(run(*args, **kwargs))

    def fit() -> list[torch.Tensor]:
        for p in parameters:
            p.grad = None
        output: Any = run(*args, **kwargs)
        (loss_of(output) * scale).backward()
        if advance is not None:
            advance()
        return [*output_tensors(output), *(p.grad for p in parameters if p.grad is not None)]

    return fit if train else infer


def scale_for(gradients: list[torch.Tensor]) -> float:
    """What to scale a loss with, as all do who train in float16: gradients far below its smallest normal number are rounding alone, and
    two orders of eager's own sums differ in them by more than any bound. A power of two, by which the largest stays far from overflow.

    Args:
        gradients: with the loss as it is.
    """
    largest = max((each.abs().max().item() for each in gradients), default=0.0)
    return 2.0 ** min(12, max(0, math.floor(math.log2(LARGEST / largest)))) if 0 < largest < math.inf else 1.0


def prepared(module: nn.Module, dropout: bool = False) -> nn.Module:
    """Without dropout if it is not asked for, whose draws each compiler may order differently, and with numbers where a model starts from
    zeros, as heads, biases, scales of residuals and means of batch norms do: results could not tell right from wrong."""
    with torch.no_grad():
        for values in (*module.parameters(), *module.buffers()):
            if values.is_floating_point() and not values.any():
                values.normal_(std=0.1)
    for part in () if dropout else module.modules():
        for name, value in vars(part).items():
            if isinstance(value, float) and ("dropout" in name or (name == "p" and isinstance(part, nn.Dropout))):
                setattr(part, name, 0.0)
    return module


def read(asked: Asked, compilers: Mapping[str, Callable[..., Any]] = CONTENDERS) -> Reading:
    """Compile, compare and time. Whatever a contender raises is told in `failed`, and it is left out."""
    reading = Reading(asked)
    dtype = getattr(torch, asked.dtype)
    torch.manual_seed(0)
    model = MODELS[asked.model]
    module = prepared(model.build(dtype).train(asked.train), asked.whole)
    args, kwargs = model.inputs(asked.batch, dtype)

    def step_under(contender: str, precision: torch.dtype = dtype, train: bool = asked.train) -> Step:
        mine = copy.deepcopy(module).to(asked.device, precision)
        compiler = functools.partial(compilers[contender], options=asked.options.get(contender))
        place = functools.partial(converted, dtype=precision, device=asked.device)
        inputs = (tuple(map(place, args)), {k: place(v) for k, v in kwargs.items()})
        update = compiler if asked.optimizer else CONTENDERS["eager"]
        return step_of(mine, compiler(mine), inputs, train, asked.whole, scale, update)

    scale = 1.0
    if asked.train and dtype is torch.float16:
        outputs = len(step_under("eager", torch.float64, train=False)())
        scale = scale_for(step_under("eager", torch.float64)()[outputs:])
    exact = [t.clone() for t in step_under("eager", torch.float64)()]
    eager = [t.clone() for t in step_under("eager")()]
    steps: dict[str, Timed] = {}
    drawn = asked.whole and not _same(step_under("eager")(), eager)
    for contender in asked.contenders:
        start = time.perf_counter()
        try:
            step = step_under(contender)
            with timed_phases("run") as phases:
                found = step()
            synchronise(asked.device)
        except Exception as error:
            reading.failed[contender] = f"{type(error).__name__}: {str(error)[:300]}"
            continue
        first = time.perf_counter()
        step()
        synchronise(asked.device)
        once = time.perf_counter() - first
        if contender == "ours":  # nobody else tells of any
            reading.phases = phases
        if contender != "eager":
            reading.compile[contender] = max(0.0, first - start - once)
        differences = ((a.double() - b.double()).abs().max() / b.abs().max() for a, b in zip(found, eager, strict=True))
        reading.difference[contender] = max(d.item() for d in differences)
        try:
            if not drawn:
                assert_as_accurate(found, eager, exact, asked.model)
        except AssertionError as error:
            reading.failed[contender] = f"WRONG: {str(error).splitlines()[0]}"
        steps[contender] = Timed(step, max(1, int(ROUND / once)))
        if asked.device == "cuda":
            reading.memory[contender] = _peak(step)
    found = eager = exact = []
    if asked.device == "cuda":
        gc.collect()
        torch.cuda.empty_cache()  # others compile beside this one
    if asked.rounds:
        await_turn()
        reading.step = interleaved(steps, asked.rounds, asked.device)
    return reading


def _same(some: list[torch.Tensor], others: list[torch.Tensor]) -> bool:
    """Whether two runs gave the same up to rounding: no random numbers are in them."""
    return all(torch.allclose(a, b, rtol=1e-2, atol=1e-2) for a, b in zip(some, others, strict=True))


def _peak(step: Step) -> int:
    """Bytes that a step has asked for at most besides what was there before it. What the allocator gives beyond that, where it does not
    split a block, is chance."""
    torch.cuda.synchronize()
    before = torch.cuda.memory_stats()["requested_bytes.all.current"]
    torch.cuda.reset_peak_memory_stats()
    step()
    torch.cuda.synchronize()
    peak: int = torch.cuda.memory_stats()["requested_bytes.all.peak"]
    return peak - before


def main(compilers: Mapping[str, Callable[..., Any]] = CONTENDERS) -> None:
    asked = Asked.of(sys.argv[1])
    torch.set_num_threads(asked.threads)
    print(json.dumps(asdict(read(asked, compilers))))


if __name__ == "__main__":
    main()
