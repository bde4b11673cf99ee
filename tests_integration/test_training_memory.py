"""What a training step takes of memory at most: no more than eager's, but for a little."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

import capture
import meta
from tests_integration.zoo import MODELS, loss_of

ALLOWED = 1.02
BATCHES = {"bert_sdpa": 32, "bert_eager": 32, "gpt2_sdpa": 32, "resnet18": 8, "vit_tiny_patch16_224": 4}
"""Large enough for what is saved to matter beside gradients and what libraries take for themselves."""


@pytest.fixture(autouse=True)
def _strict(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(capture.config, "on_error", "raise")
    yield


def peak(step: Callable[[], object]) -> int:
    """Bytes that a step has allocated at most besides what was allocated before it."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        step()
    events = [each for each in seen.profiler.kineto_results.events() if each.name() == "[memory]"]
    taken = most = 0
    for each in sorted(events, key=lambda each: each.start_ns()):
        taken += each.nbytes()
        most = max(most, taken)
    return most


@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize("name", BATCHES)
def test_a_step_needs_no_more_than_eager(name: str, dropout: float) -> None:
    model = MODELS[name]
    if not model.available:
        pytest.skip(f"needs {', '.join(model.needs)}")
    module, _ = model.make(train=True)
    args, kwargs = model.inputs(BATCHES[name], torch.float32)
    for part in module.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = dropout

    def taken(run: Callable[..., object]) -> int:
        def step() -> None:
            loss_of(run(*args, **kwargs)).backward()

        step()
        step()
        for parameter in module.parameters():
            parameter.grad = None
        return peak(step)

    # Memory that is kept from call to call is there before the step.
    ours = taken(meta.compile(module, options={"pool_memory": False}))
    assert ours <= ALLOWED * taken(module)
