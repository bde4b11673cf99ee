"""Sizes that may be 1 or 0: values, strides, memory that is shared, gradients and errors are eager's, whatever was compiled first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch.nn import functional as F

import capture
import meta
from benchmarks.dynamic.cell import difference

CHANNELS_LAST = torch.channels_last
Program = Callable[..., Any]


@pytest.fixture(autouse=True)
def strict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture.config, "on_error", "raise")


def seen(program: Program, args: Sequence[Any], gradients: bool) -> Any:
    """What a call gives and does, as values: or what it raises."""
    given = [a.clone().requires_grad_(gradients) if isinstance(a, torch.Tensor) else a for a in args]
    try:
        returned = program(*given)
    except Exception as error:
        return type(error).__name__
    results = list(returned) if isinstance(returned, tuple) else [returned]
    tensors = [t for t in (*given, *results) if isinstance(t, torch.Tensor)]
    keys = [t.untyped_storage().data_ptr() if t.numel() else at for at, t in enumerate(tensors)]
    layouts = [
        (
            tuple(t.shape),
            [s for s, n in zip(t.stride(), t.shape, strict=True) if n > 1] if t.numel() else (),
            t.requires_grad,
        )
        for t in tensors
    ]
    slopes = []
    for result in results:
        if gradients and isinstance(result, torch.Tensor) and result.requires_grad:
            found = torch.autograd.grad(result.sum(), given[0], retain_graph=True, allow_unused=True)[0]
            slopes.append(None if found is None else found.tolist())
    others = [r for r in results if not isinstance(r, torch.Tensor)]
    return [keys.index(key) for key in keys], layouts, [t.tolist() for t in tensors], slopes, others


def same(
    program: Program, calls: Sequence[Sequence[Any]], gradients: bool = False, backends: Sequence[str] = ()
) -> None:
    for backend in backends or ("eager", "aot_eager"):
        for dynamic in (None, True):
            meta.reset()
            compiled = meta.compile(program, backend=backend, dynamic=dynamic)
            for args in calls:
                expected, found = seen(program, args, gradients), seen(compiled, args, gradients)
                gap = difference(expected, found, 1e-5)
                assert gap is None, f"{backend}, {dynamic}, {args}: {gap}"


def _rows(*sizes: tuple[int, ...]) -> list[tuple[torch.Tensor]]:
    return [(torch.arange(1.0, 1 + torch.Size(size).numel()).reshape(size),) for size in sizes]


ROWS = _rows((4, 5), (3, 7), (1, 6), (2, 1), (1, 1), (0, 3), (3, 0))


def softmax_beside_a_write(x: torch.Tensor) -> Any:
    y = x.clone()
    y[1:] = 2
    return x.softmax(-1), y


def overwritten(x: torch.Tensor) -> Any:
    y = x.clone()
    y[:] = 2
    return x * 3, y


@pytest.mark.parametrize("program", [softmax_beside_a_write, overwritten])
def test_results_without_elements_or_without_their_first_values_have_gradients(program: Program) -> None:
    same(program, ROWS, gradients=True)


def onto_what_was_expanded(x: torch.Tensor) -> Any:
    y = x[:1].expand(x.shape).reshape(x.shape)
    y.mul_(2)
    return y


def onto_its_rows(x: torch.Tensor) -> Any:
    return x.copy_(x[:1])


def onto_its_neighbours(x: torch.Tensor) -> Any:
    x[1:].add_(x[:-1])
    return x


def onto_its_transposed(x: torch.Tensor) -> Any:
    return x.t().reshape(x.shape).add_(1) if x.size(0) != x.size(1) else x.add_(x.t())


def onto_other_columns(x: torch.Tensor) -> Any:
    x[:, 0].add_(x[:, -1])
    return x


def by_a_mask_of_another_size(x: torch.Tensor) -> Any:
    x[torch.arange(4) > 1] = 0
    return x


WRITES = [onto_what_was_expanded, onto_its_rows, onto_its_neighbours, onto_its_transposed, by_a_mask_of_another_size]


@pytest.mark.filterwarnings("ignore:parts of:capture.CaptureWarning")
@pytest.mark.parametrize("program", WRITES)
def test_writes_that_eager_refuses_are_refused(program: Program) -> None:
    same(program, ROWS)


def _expanded(x: torch.Tensor, k: int) -> torch.Tensor:
    copies = x.expand(k % 4, *x.shape)
    copies.reshape(-1)[:k].mul_(2)
    return copies


@pytest.mark.parametrize(
    ("program", "calls"),
    [
        (lambda x, k: x.new_full((k % 5,), 1.5).log_softmax(0), [5, 6, 3]),
        (lambda x, k: x.new_full((k % 5, 2), 1.5).logsumexp((0, 1)), [5, 6, 3]),
        (_expanded, [4, 6, 8]),
        (lambda x, k: x.copy_(x.new_ones(k).view(x.numel(), -1)[:1]), [12, 6, 18]),
        (lambda x, k: (x[:k].aminmax(dim=0), x + 1)[1], [2, 0]),
        (lambda x, k: (x[:k].aminmax(), x + 1)[1], [2, 0]),
        (lambda x, k: (F.layer_norm(x, x.shape[k:]), x + 1)[1], [1, 2, 3]),
    ],
    ids=["log_softmax", "logsumexp", "expanded", "copied", "aminmax of rows", "aminmax", "layer norm"],
)
def test_numbers_that_make_sizes_of_nothing(program: Program, calls: list[int]) -> None:
    """Also where nobody reads the result of what eager refuses."""
    x = torch.arange(6.0).view(3, 2)
    for dynamic in (None, True):
        meta.reset()
        compiled = meta.compile(program, backend="aot_eager", dynamic=dynamic)
        for k in calls:
            assert difference(seen(program, (x, k), False), seen(compiled, (x, k), False), 1e-5) is None


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_writes_to_windows_that_overlap_are_eagers(backend: str, dynamic: bool) -> None:
    def run(x: torch.Tensor) -> torch.Tensor:
        x.mul_(3)
        return x + 1

    compiled = meta.compile(run, backend=backend, dynamic=dynamic)
    ours, theirs = (torch.arange(1.0, 7.0) for _ in range(2))
    for step in (1, 2):  # windows that overlap, and such that do not
        assert torch.equal(compiled(ours.unfold(0, 2, step)), run(theirs.unfold(0, 2, step)))
        assert torch.equal(ours, theirs)


def test_a_write_that_reads_elsewhere_in_the_tensor_needs_no_break() -> None:
    compiled = meta.compile(onto_other_columns, backend="aot_eager", fullgraph=True)
    for (x,) in _rows((4, 5), (3, 7), (2, 6)):
        assert torch.equal(compiled(x.clone()), onto_other_columns(x.clone()))


def written_in_rows(x: torch.Tensor) -> Any:
    c = x.chunk(3, -1)[0]
    c.reshape(-1)[:2].mul_(2)
    return x


def copied_twice(x: torch.Tensor) -> Any:
    return x[None, :, :, None].contiguous(memory_format=CHANNELS_LAST).flatten(1)


@pytest.mark.parametrize("program", [written_in_rows, copied_twice])
def test_what_is_a_view_at_sizes_of_one_is_one(program: Program) -> None:
    same(program, _rows((9, 4), (9, 2), (9, 5), (9, 3), (2, 5), (1, 7), (3, 1)))


def of_chosen(x: torch.Tensor) -> Any:
    row = x[x > 2].unsqueeze(0)
    return row.softmax(-1), row.log_softmax(-1), row.logsumexp(-1), row.softmax(0)


def test_softmax_of_rows_that_may_be_empty() -> None:
    same(of_chosen, _rows((2, 3), (1, 2), (0, 2), (4, 3), (1, 3)))


def formats(x: torch.Tensor) -> Any:
    y = x.t().contiguous().t()[None, ..., None]
    return F.interpolate(y, scale_factor=2), F.pixel_shuffle(y.repeat(1, 4, 1, 1), 2)


def test_the_format_of_images_of_one_column() -> None:
    same(formats, _rows((4, 5), (3, 7), (1, 6), (2, 1), (1, 1)))


def upsampled(x: torch.Tensor) -> Any:
    return F.interpolate(x[None, None], scale_factor=0.6)


def test_images_that_would_have_no_rows_are_refused() -> None:
    same(upsampled, ROWS)


@pytest.mark.parametrize("size", [(3, 0), (0, 1), (1, 2), (0, 0)])
def test_strides_of_what_has_no_elements(size: tuple[int, int]) -> None:
    def program(x: torch.Tensor) -> Any:
        y = x[None, :, :, None]
        last = y.contiguous(memory_format=CHANNELS_LAST)
        return x + 1, *(
            (t.stride(), t.is_contiguous()) for t in (last, y * 2, last * 2, last.relu(), torch.cat([last, last]))
        )

    x = torch.zeros(size)
    assert meta.compile(program, backend="eager")(x)[1:] == program(x)[1:]


def test_contractions_over_one_element() -> None:
    """Nothing is summed then, and the result lies as a product of elements does."""

    def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.einsum("abc,abd->acd", a, b)

    def laid_out(a: int, b: int, c: int, d: int) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.randn(b, a, c).transpose(0, 1), torch.randn(d, b, a).permute(2, 1, 0)

    same(product, [laid_out(2, 5, 5, 2), laid_out(5, 1, 4, 3), laid_out(4, 3, 2, 5), laid_out(3, 1, 2, 5)])
