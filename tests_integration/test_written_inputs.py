"""Programs that write to their inputs: kernels write where the inputs lie, and all that can be seen of it is as in eager."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim.adam import adam
from torch.optim.adamw import adamw
from torch.optim.sgd import sgd

import capture
import meta

X = torch.randn(16, 12, generator=torch.Generator().manual_seed(0))
Y = torch.randn(16, 12, generator=torch.Generator().manual_seed(1))
AT = torch.tensor([7, 2])
OPTIONS: list[dict[str, Any]] = [{}, {"native_wrapper": True}]


def compiled(fn: Any, options: dict[str, Any] | None = None, **choices: Any) -> tuple[Any, list[Any]]:
    """The function compiled, and the graphs that will be."""
    graphs: list[Any] = []

    def backend(graph: Any, inputs: Any) -> Any:
        return meta.backends.inductor(graph, inputs, options=options, on_compiled=graphs.append)

    return meta.compile(fn, backend=backend, **choices), graphs


def twin(value: torch.Tensor) -> torch.Tensor:
    """The same numbers, laid out the same way in a storage of the same size."""
    base = torch.zeros(value.untyped_storage().nbytes() // value.element_size(), dtype=value.dtype)
    made = base.as_strided(value.shape, value.stride(), value.storage_offset())
    return made.copy_(value)


def check(fn: Any, *inputs: torch.Tensor, options: dict[str, Any] | None = None, written: int | None = None) -> Any:
    """Call it three times, and compare results, all of the inputs' memory, what shares memory, and versions."""
    run, graphs = compiled(fn, options)
    ours, theirs = ([twin(value) for value in inputs] for _ in range(2))
    for _ in range(3):
        before = [[value._version for value in each] for each in (ours, theirs)]
        got, expected = run(*ours), fn(*theirs)
        torch.testing.assert_close(got, expected)
        for one, other in zip(ours, theirs, strict=True):
            whole = [torch.empty(0).to(t.dtype).set_(t.untyped_storage()) for t in (one, other)]
            torch.testing.assert_close(*whole)
        moved = [
            [t._version != old for t, old in zip(each, versions, strict=True)]
            for each, versions in zip((ours, theirs), before, strict=True)
        ]
        assert moved[0] == moved[1]
        memory = [
            [[a.untyped_storage()._cdata == b.untyped_storage()._cdata for b in each] for a in each]
            for each in ([*_tensors(got), *ours], [*_tensors(expected), *theirs])
        ]
        assert memory[0] == memory[1]
    if written is not None:
        assert sum(len(graph.written_results) for graph in graphs) == written
    return graphs


def _tensors(result: Any) -> list[torch.Tensor]:
    return [value for value in torch.utils._pytree.tree_leaves(result) if isinstance(value, torch.Tensor)]


def add(x: torch.Tensor, y: torch.Tensor) -> None:
    x.add_(1)


def put(x: torch.Tensor, y: torch.Tensor) -> None:
    x[AT] = y[:2]


def add_at(x: torch.Tensor, y: torch.Tensor) -> None:
    x.index_add_(0, AT, y[:2])


def copy_at(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x.index_copy_(0, AT, y[:2])
    return x.sum(0)


def part(x: torch.Tensor, y: torch.Tensor) -> None:
    x[1:3] += y[:2] * x[1:3]
    x[5] = y[0]


def column(x: torch.Tensor, y: torch.Tensor) -> None:
    x[:, 3].mul_(y[:, 0])


def old_and_new(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    old = x * 2
    x.add_(y)
    return old, x * 2, x[2], x.t(), x


def view_first(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    view = x[1:]
    total = view.sum()
    x.mul_(y)
    return view, total, view.sum()


def norm(x: torch.Tensor, y: torch.Tensor) -> None:
    x.mul_(x.amax().tanh())
    y.copy_(y.softmax(-1))


def half(x: torch.Tensor, y: torch.Tensor) -> None:
    x.copy_(y.double() * 3)


def zeroed(x: torch.Tensor, y: torch.Tensor) -> None:
    x.zero_()


def product(x: torch.Tensor, y: torch.Tensor) -> None:
    x.copy_((y @ y.t())[:, :12])


def flipped(x: torch.Tensor, y: torch.Tensor) -> None:
    x.copy_(x.flip(0))


def rolled(x: torch.Tensor, y: torch.Tensor) -> None:
    x.add_(x.roll(1))
    y.add_(y.roll(1, 0))


def shifted(x: torch.Tensor, y: torch.Tensor) -> None:
    x[1:] = x[:-1].clone()


def swapped(x: torch.Tensor, y: torch.Tensor) -> None:
    old = x.clone()
    x.copy_(y)
    y.copy_(old)


def crossed(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    total = x + y.flip(0)
    x.copy_(y)
    y.mul_(2)
    return total


def into_the_other(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x.add_(y)
    y.sub_(x)
    return x.flip(1) + y


IN_PLACE: dict[Callable[..., Any], int] = {
    add: 1, put: 1, add_at: 1, copy_at: 1, part: 1, column: 1, old_and_new: 1, view_first: 1, norm: 2, half: 1, zeroed: 1,
}  # fmt: skip
LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "contiguous": lambda t: t,
    "transposed": lambda t: t.t().contiguous().t(),
    "part of a larger one": lambda t: torch.cat([t, t, t], 1)[:, 10:22],
    "every other": lambda t: torch.stack([t, t], 2)[:, :, 1],
}


@pytest.mark.parametrize("options", OPTIONS, ids=["python", "native"])
@pytest.mark.parametrize("fn", IN_PLACE)
def test_in_place(fn: Any, options: dict[str, Any]) -> None:
    check(fn, X, Y, options=options, written=IN_PLACE[fn])


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("fn", [*IN_PLACE, flipped, swapped, crossed, into_the_other])
def test_any_layout(fn: Any, layout: str) -> None:
    check(fn, LAYOUTS[layout](X), Y)


@pytest.mark.parametrize("fn", [flipped, rolled, shifted, swapped, crossed, into_the_other, product])
def test_what_reads_what_it_overwrites(fn: Any) -> None:
    check(fn, X, Y)
    check(fn, X, Y, options={"fuse": False})


def test_large_ones() -> None:
    """Where kernels run on several threads."""
    x, y = torch.randn(1 << 10, 1 << 10), torch.randn(1 << 10, 1 << 10)
    for fn in (add, part, column, old_and_new, norm, swapped, flipped, into_the_other):
        check(fn, x, y)


def test_other_dtypes() -> None:
    for dtype in (torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.complex64):
        check(lambda x, y: x.add_(y * 2), X.to(dtype), Y.to(dtype))
    check(lambda x, y: x.copy_(x > y), X > 0, Y)


def test_of_sizes_that_change() -> None:
    run, graphs = compiled(part, dynamic=True)
    for size in (16, 9, 30):
        ours, theirs = torch.ones(size, 12), torch.ones(size, 12)
        y = torch.randn(size, 12)
        run(ours, y)
        part(theirs, y)
        torch.testing.assert_close(ours, theirs)
    assert any(graph.written_results for graph in graphs)


@pytest.mark.parametrize("at", [0, slice(0, 1), (slice(None), 2)])
def test_rows_of_an_input_with_holes_of_any_size(at: Any) -> None:
    """Nobody knows that such rows lie apart: the new content is copied there."""

    def fn(x: torch.Tensor, y: torch.Tensor) -> None:
        x[at] = y[at] * 2

    run, _ = compiled(fn, dynamic=True)
    for rows, columns in ((3, 6), (5, 4)):
        ours, theirs = torch.ones(rows, 24)[:, 3 : 3 + columns], torch.ones(rows, 24)[:, 3 : 3 + columns]
        y = torch.randn(rows, columns)
        run(ours, y)
        fn(theirs, y)
        torch.testing.assert_close(ours, theirs)


@torch.library.custom_op("written_inputs::grow", mutates_args=("x",))
def grow(x: torch.Tensor) -> None:
    x.mul_(2)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dynamic", [False, True])
def test_operators_that_write_to_what_was_computed(layout: str, dynamic: bool) -> None:
    def fn(x: torch.Tensor) -> None:
        x.add_(1)
        grow(x)
        x.sub_(3)
        grow(x)

    run, _ = compiled(fn, dynamic=dynamic)
    ours, theirs = twin(LAYOUTS[layout](X)), twin(LAYOUTS[layout](X))
    run(ours)
    fn(theirs)
    torch.testing.assert_close(ours, theirs)


def test_operators_that_are_told_where_to_write() -> None:
    """In memory that lies elsewhere than in eager they would write to the wrong places."""

    def fn(x: torch.Tensor) -> None:
        x.add_(1)
        grow(x[1:])

    run, _ = compiled(fn, dynamic=True)
    with pytest.raises(capture.InternalError, match="in memory with strides"):
        run(torch.ones(5, 24)[:, 3:9])


def test_inputs_that_overlap() -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return y * 2

    run, _ = compiled(fn)
    base, other = torch.zeros(8), torch.zeros(8)
    run(torch.zeros(6), torch.zeros(6))
    torch.testing.assert_close(run(base[:6], base[2:]), fn(other[:6], other[2:]))
    assert torch.equal(base, other)


def test_autograd_sees_the_write() -> None:
    run, _ = compiled(add)
    w, x = torch.ones(16, 12, requires_grad=True), X.clone()
    out = (w * x).sum()
    run(x, Y)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.backward()


def test_parameters_without_grad_mode() -> None:
    run, graphs = compiled(lambda w, g: w.sub_(g, alpha=0.1))
    w, g = nn.Parameter(X.clone()), Y.clone()
    with torch.no_grad():
        run(w, g)
    torch.testing.assert_close(w.detach(), X - 0.1 * Y)
    assert graphs[0].written_results and w.is_leaf and w._version == 1


def test_inference_tensors() -> None:
    run, _ = compiled(add)
    with torch.inference_mode():
        x = X.clone()
        run(x, Y)
        assert torch.equal(x, X + 1)
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
        run(x, Y)


def test_a_position_out_of_range() -> None:
    """Some may have been written by then, as in eager; but nothing twice."""

    def fn(x: torch.Tensor, cache: torch.Tensor, at: torch.Tensor) -> None:
        x.add_(1)
        cache[at] = x[: at.shape[0]]

    for options in OPTIONS:
        run, graphs = compiled(fn, options)
        x, cache = X.clone(), Y.clone()
        run(x, cache, AT)
        assert len(graphs[0].written_results) == 2
        with pytest.raises(IndexError):
            run(x, cache, torch.tensor([3, 99]))
        assert torch.allclose(x, X + 2) or torch.allclose(x, X + 1)
        assert (x._version, cache._version) == (2, 2)
        run(x, cache, AT)
        torch.testing.assert_close(cache[AT], x[:2])


def test_from_the_disk_cache(tmp_path: Path) -> None:
    options = {"cache_dir": str(tmp_path)}
    for expected in ("miss", "hit"):
        meta.reset()
        (graph,) = check(copy_at, X, Y, options=options, written=1)
        assert graph.stats.cache == expected


def test_who_wraps_a_compiled_graph() -> None:
    """Nobody learns from a wrapper that its graph writes to inputs; the copies that follow then change nothing."""
    import aotgrad  # only here somebody calls it himself
    from inductor import compile_graph

    def compiler(graph: Any, inputs: Any) -> Any:
        inner = compile_graph(graph, inputs)
        assert inner.written_results
        return lambda args: inner(args)

    x, other = X.clone(), X.clone()
    program = lambda x, y: (old_and_new(x, y)[:4],)  # noqa: E731
    run = aotgrad.compile(program, [x, Y], inference_compiler=compiler)
    torch.testing.assert_close(run(x, Y), program(other, Y))
    torch.testing.assert_close(x, other)


def test_training_with_batch_norm() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6, momentum=0.3), nn.ReLU(), nn.Flatten(), nn.LazyLinear(4)
    )
    images = torch.randn(4, 3, 8, 8)
    model(images)
    ours, theirs = copy.deepcopy(model), copy.deepcopy(model)
    run, _ = compiled(ours)
    for _ in range(3):
        for module, call in ((ours, run), (theirs, theirs)):
            call(images).square().sum().backward()
            with torch.no_grad():
                for p in module.parameters():
                    p.sub_(p.grad, alpha=0.01)
                    p.grad = None
        torch.testing.assert_close(ours.state_dict(), theirs.state_dict(), rtol=1e-4, atol=1e-5)
    assert ours[1].num_batches_tracked._version == theirs[1].num_batches_tracked._version


def test_training_writes_to_buffers() -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(12, 12)
            self.register_buffer("seen", torch.zeros(12))
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.linear(x) * (1 + self.seen)
            self.seen.lerp_(y.detach().mean(0), 0.25)
            self.calls += 1
            return (y + self.seen) * self.seen.sigmoid()

    torch.manual_seed(0)
    ours = Counting()
    theirs = copy.deepcopy(ours)
    run, graphs = compiled(ours)
    for _ in range(3):
        for module, call in ((ours, run), (theirs, theirs)):
            module.zero_grad()
            call(X).square().sum().backward()
        torch.testing.assert_close([ours.seen, ours.calls], [theirs.seen, theirs.calls])
        for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
            torch.testing.assert_close(p.grad, q.grad)
    assert graphs[0].written_results and (ours.seen._version, ours.calls._version) == (3, 3)


def test_what_is_kept_for_a_backward() -> None:
    """The new content, of which autograd would say that it was written to since."""

    def fn(seen: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        seen.add_(1)
        return seen * w

    run, _ = compiled(fn)
    for _ in range(2):
        seen, w = X.clone(), Y.clone().requires_grad_()
        run(seen, w).sum().backward()
        torch.testing.assert_close(w.grad, X + 1)


def test_gradients_of_what_was_there_before_a_write() -> None:
    """They are connected to the input as it was, although the write has a gradient, too."""

    def fn(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x.mul_(2)
        old = x.clone()
        x.copy_(w * 2)
        return x.sum(), old * w.exp()

    def gradients(call: Any, leaf: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x, w = leaf * 1, Y.clone().requires_grad_()
        out = call(x, w)
        inputs = (w, leaf) if leaf.requires_grad else (w,)
        return torch.autograd.grad([each.square().sum() for each in (*out, x)], inputs)

    for wants in (False, True):
        run, _ = compiled(fn, fullgraph=True)
        torch.testing.assert_close(
            gradients(run, X.clone().requires_grad_(wants)),
            gradients(fn, X.clone().requires_grad_(wants)),
            rtol=1e-4,
            atol=1e-4,
        )


def _states(count: int, steps: int = 1) -> list[list[torch.Tensor]]:
    torch.manual_seed(0)
    params = [torch.randn(7, 5) for _ in range(count)]
    grads = [torch.randn(7, 5) for _ in range(count)]
    return [
        params, grads, [torch.zeros(7, 5) for _ in params], [torch.zeros(7, 5) for _ in params], [torch.zeros(()) for _ in params],
    ]  # fmt: skip


COMMON: dict[str, Any] = {"foreach": False, "fused": False, "grad_scale": None, "found_inf": None, "maximize": False}
ADAM = {**COMMON, "amsgrad": False, "beta1": 0.9, "beta2": 0.99, "lr": 0.01, "weight_decay": 0.1, "eps": 1e-8}
STEPS: dict[str, Callable[..., Any]] = {
    "sgd": lambda p, g, m, v, s: sgd(
        p, g, m, has_sparse_grad=False, weight_decay=0.1, momentum=0.9, lr=0.1, dampening=0.0, nesterov=True, **COMMON
    ),
    "adam": lambda p, g, m, v, s: adam(p, g, m, v, [], s, **ADAM),
    "adamw": lambda p, g, m, v, s: adamw(p, g, m, v, [], s, **ADAM),
    "foreach": lambda p, g, m, v, s: (
        torch._foreach_lerp_(m, g, 0.1),
        torch._foreach_mul_(v, 0.9),
        torch._foreach_addcmul_(v, g, g, 0.1),
        torch._foreach_add_(p, torch._foreach_div(m, torch._foreach_add(torch._foreach_sqrt(v), 1e-8)), alpha=-0.1),
        None,
    )[-1],
}


@pytest.mark.parametrize("name", STEPS)
def test_steps_of_optimizers(name: str) -> None:
    run, graphs = compiled(STEPS[name])
    ours, theirs = _states(3), _states(3)
    with torch.no_grad():
        for _ in range(4):
            run(*ours)
            STEPS[name](*theirs)
            torch.testing.assert_close(ours, theirs)
    last = graphs[-1]
    offered = {"sgd": 6, "adam": 12, "adamw": 12, "foreach": 9}[name]
    assert len(last.written_results) == offered
    assert [t._version > 0 for each in ours for t in each] == [t._version > 0 for each in theirs for t in each]


def test_decoding_with_a_static_cache() -> None:
    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)
            self.register_buffer("k", torch.zeros(2, 4, 32, 4))
            self.register_buffer("v", torch.zeros(2, 4, 32, 4))

        def forward(self, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
            q, k, v = self.qkv(x).view(2, 1, 3, 4, 4).permute(2, 0, 3, 1, 4)
            self.k.index_copy_(2, at, k)
            self.v[:, :, at] = v
            mask = (torch.arange(32) <= at)[None]
            mixed = nn.functional.scaled_dot_product_attention(q, self.k, self.v, attn_mask=mask)
            return self.out(mixed.transpose(1, 2).reshape(2, 1, 16))

    torch.manual_seed(0)
    ours = Attention()
    theirs = copy.deepcopy(ours)
    run, graphs = compiled(ours)
    x = other = torch.randn(2, 1, 16)
    with torch.no_grad():
        for step in range(6):
            x, other = run(x, torch.tensor([step])), theirs(other, torch.tensor([step]))
            torch.testing.assert_close(x, other)
            torch.testing.assert_close([ours.k, ours.v], [theirs.k, theirs.v])
    assert len(graphs[0].written_results) == 2
    assert ".copy_(" not in graphs[0].source


Step = Callable[[list[torch.Tensor], "random.Random"], torch.Tensor | None]


def _target(tensors: list[torch.Tensor], draw: random.Random) -> torch.Tensor:
    return tensors[draw.randrange(3)]


STATEMENTS: list[Step] = [
    lambda t, r: _target(t, r).add_(_target(t, r).clone() * 0.5),
    lambda t, r: _target(t, r).mul_(_target(t, r).mean().tanh()),
    lambda t, r: _target(t, r).copy_(_target(t, r).flip(r.randrange(2))),
    lambda t, r: _target(t, r).copy_(_target(t, r).t().clone()),
    lambda t, r: _target(t, r).add_(_target(t, r).roll(1, r.randrange(2))),
    lambda t, r: _target(t, r).copy_(_target(t, r).softmax(-1)),
    lambda t, r: _target(t, r).copy_(_target(t, r) @ _target(t, r) * 0.1),
    lambda t, r: _target(t, r)[1:4].copy_(_target(t, r)[2:5].clone()),
    lambda t, r: _target(t, r)[:, 2].copy_(_target(t, r)[0].clone()),
    lambda t, r: _target(t, r)[::2].add_(_target(t, r)[1::2].clone()),
    lambda t, r: _target(t, r).index_copy_(0, AT[:2], _target(t, r)[:2].clone()),
    lambda t, r: _target(t, r).index_add_(1, AT[:2], _target(t, r)[:, 3:5].clone()),
    lambda t, r: _target(t, r)[1].index_put_((AT[:2],), _target(t, r)[5, :2].clone()),
    lambda t, r: _target(t, r).sum(r.randrange(2)),
    lambda t, r: _target(t, r) + _target(t, r).flip(0),
    lambda t, r: _target(t, r)[2:],
    lambda t, r: _target(t, r).t(),
    lambda t, r: _target(t, r),
]
"""Of three square tensors: what a program writes to one of them, or gives out."""


def _program(seed: int) -> Callable[..., Any]:
    draw = random.Random(seed)
    lines = [(draw.choice(STATEMENTS), draw.random()) for _ in range(draw.randint(1, 7))]

    def program(*tensors: torch.Tensor) -> list[Any]:
        return [statement(list(tensors), random.Random(choice)) for statement, choice in lines]

    return program


def check_random(seed: int) -> int:
    """Compare a random program with eager; how many results were written in place."""
    import aotgrad  # the programs are no code to capture: they draw as they run
    from inductor import Options, compile_graph

    draw = random.Random(seed)
    options = Options(native_wrapper=draw.random() < 0.3, fuse=draw.random() < 0.8, reuse_memory=draw.random() < 0.8)
    graphs = []

    def compiler(graph: Any, inputs: Any) -> Any:
        graphs.append(compile_graph(graph, inputs, options))
        return graphs[-1]

    program = _program(seed)
    layouts = [draw.choice([*LAYOUTS.values()]) for _ in range(3)]
    made = [
        layout(torch.randn(12, 12, generator=torch.Generator().manual_seed(seed + at)))
        for at, layout in enumerate(layouts)
    ]
    ours, theirs = [[twin(value) for value in made] for _ in range(2)]
    with torch.no_grad():
        run = aotgrad.compile(program, ours, inference_compiler=compiler)
        for _ in range(2):
            torch.testing.assert_close(
                run(*ours), program(*theirs), rtol=1e-4, atol=1e-4, msg=lambda m: f"program {seed}: {m}"
            )
            whole = [[torch.empty(0).set_(t.untyped_storage()) for t in each] for each in (ours, theirs)]
            torch.testing.assert_close(*whole, rtol=1e-4, atol=1e-4, msg=lambda m: f"program {seed}: {m}")
    return sum(len(graph.written_results) for graph in graphs)


def test_random_programs() -> None:
    assert sum(map(check_random, range(24))) > 12


def a_part(v: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    v[1:] = (x * 2)[1:]
    return v * v


def turned(v: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    v.t().mul_(x.t())
    return v * 2


def parts(v: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    v[0].copy_(x[0] * 2)
    v[..., -1].mul_(x[..., 0])
    return v.sin()


@pytest.mark.parametrize("fn", [a_part, turned, parts])
def test_what_has_gradients_is_written_between_other_elements(fn: Any) -> None:
    step = meta.compile(fn, dynamic=True, fullgraph=True)
    for rows, columns in ((4, 6), (3, 5)):
        found = []
        for each in (fn, step):
            whole = torch.arange(rows * columns * 4.0).view(2 * rows, 2 * columns)
            x = torch.arange(1.0, 1 + rows * columns).view(rows, columns).requires_grad_()
            each(whole[::2, ::2], x).sum().backward()
            found.append([whole.detach(), x.grad])
        torch.testing.assert_close(*found)
