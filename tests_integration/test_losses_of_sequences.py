"""`ctc_loss`: one graph whatever the lengths are that tensors hold, with eager's losses and gradients."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

import meta

STEPS, BATCH, LABELS = 12, 3, 7
INTEGERS = {"int64": torch.int64, "int32": torch.int32}


def loss(logits: torch.Tensor, targets: torch.Tensor, steps: object, labels: object, reduction: str) -> torch.Tensor:
    return F.ctc_loss(logits.log_softmax(-1), targets, steps, labels, reduction=reduction, zero_infinity=True)  # type: ignore[arg-type]


def check(compiled: object, *given: object) -> None:
    logits = torch.randn(STEPS, BATCH, LABELS, generator=torch.Generator().manual_seed(0))
    found = []
    for run in (compiled, loss):
        x = logits.clone().requires_grad_()
        out = run(x, *given)  # type: ignore[operator]
        out.sum().backward()
        found.append((out.detach(), x.grad))
    torch.testing.assert_close(found[0], found[1])


@pytest.mark.parametrize("backend", ["eager", "inductor"])
@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("joined", [False, True], ids=["rows", "joined"])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_lengths_in_tensors(backend: str, dtype: str, joined: bool, reduction: str) -> None:
    compiled = meta.compile(loss, backend=backend, fullgraph=True)
    kind = INTEGERS[dtype]
    for labels in ([4, 3, 2], [2, 5, 2], [1, 3, 5]):  # with the same number of them
        count = torch.Generator().manual_seed(1)
        targets = torch.randint(1, LABELS, (9,) if joined else (BATCH, 5), dtype=kind, generator=count)
        lengths = torch.tensor([STEPS, 9, 3], dtype=kind), torch.tensor(labels, dtype=kind)
        check(compiled, targets, *lengths, reduction)
    assert compiled.session.report.graph_count == 1


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_lengths_that_are_numbers(reduction: str) -> None:
    compiled = meta.compile(loss, fullgraph=True)
    targets = torch.randint(1, LABELS, (BATCH, 5), generator=torch.Generator().manual_seed(1))
    check(compiled, targets, (STEPS, 9, 3), (4, 3, 5), reduction)
    check(compiled, targets, (STEPS, STEPS, STEPS), (1, 1, 1), reduction)


def test_the_mean_of_lengths_that_are_numbers_is_eagers() -> None:
    def losses(logits: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, ...]:
        given = logits.log_softmax(-1)
        return (
            F.ctc_loss(given, targets, [STEPS, 9, 3], [4, 0, 5]),  # no sequence counts as shorter than 1
            torch.ctc_loss(given, targets, [STEPS, 9, 3], [4, 3, 5], 1, 1, True),
            F.ctc_loss(given[:, 0], targets[0, :4], (STEPS,), (4,)),
        )

    compiled = meta.compile(losses, backend="eager", fullgraph=True)
    logits = torch.randn(STEPS, BATCH, LABELS, generator=torch.Generator().manual_seed(0))
    targets = torch.randint(2, LABELS, (BATCH, 5), generator=torch.Generator().manual_seed(1))
    for found, wanted in zip(compiled(logits, targets), losses(logits, targets), strict=True):
        assert torch.equal(found, wanted)
