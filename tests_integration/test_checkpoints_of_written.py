"""Checkpoints of what is written to before the backward: eager refuses it of arguments, and computes with what else it finds by then."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import capture
import meta

COMPUTED: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "product": lambda y, b: (y * b).sin(),
    "sum": lambda y, b: (y + b).sin(),
    "both": lambda y, b: ((y + b).sin() * b).exp(),
}


def given(computed: Any, reentrant: bool) -> Callable[..., Any]:
    def written(x: torch.Tensor, b: torch.Tensor) -> Any:
        z = checkpoint(computed, x * 1, b, use_reentrant=reentrant)
        b.mul_(2)
        return z

    return written


def found(computed: Any, reentrant: bool) -> Callable[..., Any]:
    def written(x: torch.Tensor, b: torch.Tensor) -> Any:
        z = checkpoint(lambda y: computed(y, b), x * 1, use_reentrant=reentrant)
        b[1:].mul_(2)
        return z

    return written


def found_of_the_data(computed: Any, reentrant: bool) -> Callable[..., Any]:
    def written(x: torch.Tensor, b: torch.Tensor) -> Any:
        c = b + 1
        z = checkpoint(lambda y: computed(y, c), x * 1, use_reentrant=reentrant)
        c.data.neg_()
        z.sum().backward()
        return z

    return written


def between(computed: Any, reentrant: bool) -> Callable[..., Any]:
    def written(x: torch.Tensor, b: torch.Tensor) -> Any:
        z = checkpoint(computed, x * 1, b, use_reentrant=reentrant)
        w = checkpoint(computed, x * 2, b, use_reentrant=reentrant)
        z.sum().backward()
        b.mul_(2)
        w.sum().backward()
        return w

    return written


def between_and_found(computed: Any, reentrant: bool) -> Callable[..., Any]:
    def written(x: torch.Tensor, b: torch.Tensor) -> Any:
        c = b + 1
        z = checkpoint(lambda y: computed(y, c), x * 1, use_reentrant=reentrant)
        w = checkpoint(lambda y: computed(y, c), x * 2, use_reentrant=reentrant)
        z.sum().backward()
        c.mul_(2)
        w.sum().backward()
        return w

    return written


def between_of_the_data(computed: Any, reentrant: bool) -> Callable[..., Any]:
    def written(x: torch.Tensor, b: torch.Tensor) -> Any:
        z = checkpoint(computed, x * 1, b, use_reentrant=reentrant)
        w = checkpoint(computed, x * 2, b, use_reentrant=reentrant)
        z.sum().backward()
        b.data.mul_(2)
        w.sum().backward()
        return w

    return written


def outcome(function: Any) -> Any:
    x, b = torch.tensor([0.3, -0.8, 1.2], requires_grad=True), torch.tensor([1.5, 0.5, -0.5])
    try:
        z = function(x, b)
        if x.grad is None:
            z.sum().backward()
    except RuntimeError as error:
        return str(error)
    return z.detach(), x.grad, b


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize(
    "program",
    [given, found, found_of_the_data, between, between_and_found, between_of_the_data],
    ids=lambda program: program.__name__,
)
def test_what_is_written_before_the_backward_is_as_in_eager(program: Any, backend: str) -> None:
    for computed, reentrant in itertools.product(COMPUTED.values(), (False, True)):
        function = program(computed, reentrant)
        compiled, wanted = meta.compile(function, backend=backend), outcome(function)
        for _ in range(2):
            result = outcome(compiled)
            if isinstance(wanted, str):
                assert "modified by an inplace operation" in wanted
                assert isinstance(result, str) and "modified by an inplace operation" in result
            else:
                torch.testing.assert_close(result, wanted)


def test_a_backward_keeps_what_another_checkpoint_reads_again_apart() -> None:
    """What the first one read is written to after its backward, and before that of the second, which reads something else."""

    def step(x: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        z = checkpoint(COMPUTED["both"], x * 1, b, use_reentrant=False)
        w = checkpoint(COMPUTED["both"], x * 2, b + 1, use_reentrant=False)
        z.sum().backward()
        b.mul_(2)
        w.sum().backward()
        return w

    compiled = meta.compile(step, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(outcome(compiled), outcome(step))


def test_what_is_written_after_the_backward_ends_no_graph() -> None:
    """As an optimizer does."""

    def step(model: Any, x: torch.Tensor) -> torch.Tensor:
        z = checkpoint(model, x, use_reentrant=False)
        z.sum().backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.sub_(parameter.grad, alpha=0.1)
        return z.detach()

    torch.manual_seed(0)
    model, x = torch.nn.Linear(3, 2), torch.randn(4, 3)
    same = torch.nn.Linear(3, 2)
    same.load_state_dict(model.state_dict())
    compiled = meta.compile(step, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(same, x), step(model, x))
    torch.testing.assert_close(dict(same.named_parameters()), dict(model.named_parameters()))
    assert capture.report(compiled).graph_count == 1
