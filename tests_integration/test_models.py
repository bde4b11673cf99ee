"""Real models, inference and training, against eager: outputs, gradients and buffers."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn

import meta
from tests_integration.accuracy import assert_as_accurate
from tests_integration.zoo import MODELS, Model, loss_of, output_tensors

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def _available(model: Model) -> Model:
    if not model.available:
        pytest.skip(f"{model.name} needs {' and '.join(model.needs)}, not installed in this session")
    return model


def _cast(inputs: Any, dtype: torch.dtype) -> Any:
    if isinstance(inputs, torch.Tensor):
        return inputs.to(dtype) if inputs.is_floating_point() else inputs
    if isinstance(inputs, dict):
        return {k: _cast(v, dtype) for k, v in inputs.items()}
    return tuple(_cast(v, dtype) for v in inputs)


def _without_dropout(module: nn.Module) -> nn.Module:
    """Dropout's numbers are tested with seeds elsewhere; here all dtypes must draw alike."""
    for part in module.modules():
        if isinstance(part, nn.Dropout):
            part.p = 0.0
    return module


def _infer(run: Any, inputs: Any) -> list[torch.Tensor | None]:
    args, kwargs = inputs
    with torch.no_grad():
        return list(output_tensors(run(*args, **kwargs)))


def _train(run: Any, module: nn.Module, inputs: Any) -> list[torch.Tensor | None]:
    args, kwargs = inputs
    output = run(*args, **kwargs)
    loss_of(output).backward()
    state = [b for b in module.buffers() if b.is_floating_point()]
    return [*(t.detach() for t in output_tensors(output)), *(p.grad for p in module.parameters()), *state]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", MODELS)
def test_inference(name: str, dtype: str) -> None:
    model = _available(MODELS[name])
    module, inputs = model.make(dtype=DTYPES[dtype])
    exact = _infer(copy.deepcopy(module).double(), _cast(inputs, torch.float64))
    eager = _infer(module, inputs)
    compiled = meta.compile(module, fullgraph=True)
    assert_as_accurate(_infer(compiled, inputs), eager, exact, "first call")
    assert_as_accurate(_infer(compiled, inputs), eager, exact, "second call")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", MODELS)
def test_training(name: str, dtype: str) -> None:
    model = _available(MODELS[name])
    module, inputs = model.make(train=True, dtype=DTYPES[dtype])
    _without_dropout(module)
    reference = copy.deepcopy(module).double()
    exact = _train(reference, reference, _cast(inputs, torch.float64))
    peer = copy.deepcopy(module)
    eager = _train(peer, peer, inputs)
    found = _train(meta.compile(module), module, inputs)
    assert_as_accurate(found, eager, exact, name)


def _step(module: nn.Module) -> Any:
    """One step of training, from clearing the gradients to the schedule; gives the outputs."""
    optimizer = torch.optim.SGD(module.parameters(), lr=1e-3, momentum=0.9)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)

    def step(*args: Any, **kwargs: Any) -> Any:
        optimizer.zero_grad()
        output = module(*args, **kwargs)
        loss_of(output).backward()
        nn.utils.clip_grad_norm_(module.parameters(), 1e6)
        optimizer.step()
        schedule.step()
        return output

    return step


def _stepped(step: Any, module: nn.Module, inputs: Any) -> list[torch.Tensor | None]:
    args, kwargs = inputs
    outputs = [t.detach() for t in output_tensors(step(*args, **kwargs))]
    state = [b for b in module.buffers() if b.is_floating_point()]
    parameters = list(module.parameters())
    return [*outputs, *(p.grad for p in parameters), *(p.detach() for p in parameters), *state]


@pytest.mark.parametrize("name", MODELS)
def test_the_whole_step_of_training_compiled(name: str) -> None:
    module, inputs = _available(MODELS[name]).make(train=True, dtype=torch.float32)
    _without_dropout(module)
    reference = copy.deepcopy(module).double()
    exact = _stepped(_step(reference), reference, _cast(inputs, torch.float64))
    peer = copy.deepcopy(module)
    eager = _stepped(_step(peer), peer, inputs)
    found = _stepped(meta.compile(_step(module)), module, inputs)
    assert_as_accurate(found, eager, exact, name)


def test_dropout_draws_eagers_numbers() -> None:
    module = nn.Sequential(nn.Linear(16, 32), nn.Dropout(0.3), nn.ReLU(), nn.Dropout(0.5), nn.Linear(32, 4)).train()
    compiled = meta.compile(module)
    x = torch.randn(8, 16)
    for seed in range(3):
        torch.manual_seed(seed)
        expected = module(x)
        torch.manual_seed(seed)
        torch.testing.assert_close(compiled(x), expected)
