"""What is run: a model of the zoo in inference or training, or the tiny function whose call overhead is measured."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from benchmarks.contenders import CONTENDERS
from tests_integration.zoo import MODELS, loss_of, output_tensors

OVERHEAD = "x + 1"
"""Name of the workload that measures the overhead of a call: one addition on 8 elements."""
NAMES = (OVERHEAD, *MODELS)


def add_one(x: torch.Tensor) -> torch.Tensor:
    return x + 1


@dataclass
class Workload:
    """`step()` runs one step and returns the tensors to compare: outputs, and in training the gradients."""

    step: Callable[[], list[torch.Tensor]]
    iterations: int
    """Steps per timed round, so that a round is well above the clock's grain."""
    asking: float
    """Seconds that it took to ask for a compiled function; compilers are imported then."""


def workload(name: str, contender: str, *, train: bool, device: str = "cpu") -> Workload:
    """The named workload under the named contender; weights and inputs are the same for every contender."""
    if name == OVERHEAD:
        x = torch.arange(8, dtype=torch.float32, device=device)
        add, asking = _asked(contender, add_one)
        return Workload(lambda: [add(x)], 2000, asking)
    module, (args, kwargs) = MODELS[name].make(train=train)
    module = copy.deepcopy(module).to(device)
    # Dropout draws from the generator in an order a compiler may choose; without it the numbers can be compared.
    for part in module.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.0
    args = tuple(a.to(device) if isinstance(a, torch.Tensor) else a for a in args)
    kwargs = {k: v.to(device) if isinstance(v, torch.Tensor) else v for k, v in kwargs.items()}
    run, asking = _asked(contender, module)
    parameters = [p for p in module.parameters() if p.requires_grad]

    def infer() -> list[torch.Tensor]:
        with torch.no_grad():
            return output_tensors(run(*args, **kwargs))

    def fit() -> list[torch.Tensor]:
        for p in parameters:
            p.grad = None
        output: Any = run(*args, **kwargs)
        loss_of(output).backward()
        return [*output_tensors(output), *(p.grad for p in parameters if p.grad is not None)]

    return Workload(fit if train else infer, 1, asking)


def _asked(contender: str, what: Any) -> tuple[Any, float]:
    start = time.perf_counter()
    return CONTENDERS[contender](what), time.perf_counter() - start
