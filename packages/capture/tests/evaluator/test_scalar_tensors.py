"""What scalar tensors on the CPU hold, where the program needs the number itself: told by what made them, or kept by guards."""

from __future__ import annotations

import functools
import gc
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import capture
from capture.evaluator.scalars import Held, ScalarTensors


def chunks(x: Any) -> Any:
    count = torch.div(x.shape[1], 2, rounding_mode="trunc") - 1
    y = x.new_zeros((2, count + 1, 3))
    y[:, :count] = 1
    width = torch.tensor(3)
    width += 1
    if count == 3:
        y = y + width.item()
    return y + x.reshape(2, torch.div(x.shape[1], 2, rounding_mode="trunc"), -1)[..., :1]


def test_numbers_alone_tell_what_a_tensor_holds() -> None:
    compiled = capture.compile(chunks, fullgraph=True, dynamic=False)
    for length in (8, 10, 8):
        x = torch.randn(2, length, 3)
        assert torch.equal(compiled(x), chunks(x))
    seen: list[torch.fx.GraphModule] = []
    capture.compile(chunks, backend=lambda module, inputs: seen.append(module) or module)(torch.randn(2, 8, 3))
    (graph,) = seen
    (made,) = [node for node in graph.graph.nodes if node.target == "new_zeros"]
    assert made.args[1] == (2, 4, 3)


class Padded(torch.nn.Module):
    """Pads by what buffers say, and adds what is as long, if they say so."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("kernel", torch.tensor(5))
        self.register_buffer("step", torch.tensor(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        total = self.kernel - self.step
        whole = torch.ceil((x.shape[-1] - self.kernel + total) / self.step + 1).to(torch.int64) - 1
        extra = whole * self.step + self.kernel - total - x.shape[-1]
        if max(total, extra) >= 6:
            x = x + 1
        y = F.pad(x, (total, extra)).unfold(-1, 5, 1).sum(-1)
        return x + y


def test_buffers_are_guarded_to_hold_the_same() -> None:
    module = Padded()
    compiled = capture.compile(module)
    x = torch.randn(2, 20)
    assert torch.equal(compiled(x), module(x))
    report = compiled.session.report
    assert report.graph_count == 1 and not report.breaks
    module.kernel.fill_(7)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="size"):
            module(x)
        with pytest.raises(RuntimeError, match="size"):
            compiled(x)
    module.kernel.fill_(5)
    assert torch.equal(compiled(x), module(x))


class PaddedApart(torch.nn.Module):
    """Decides by a length that is padded by what a buffer says: nothing but the padding reads it."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("kernel", torch.tensor(5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.pad(x, (self.kernel - 1, self.kernel))
        return y * 2 if y.shape[-1] > 20 else y


def test_numbers_that_kernels_read_are_known_to_decisions_by_sizes() -> None:
    module = PaddedApart()
    compiled = capture.compile(module)
    x = torch.randn(2, 12)
    assert torch.equal(compiled(x), module(x))
    report = compiled.session.report
    assert report.graph_count == 1 and not report.breaks
    for width in (4, 6, 5):
        module.kernel.fill_(width)
        assert torch.equal(compiled(x), module(x))


def test_a_number_that_changes_is_not_kept() -> None:
    def scheduled(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        if n > 3:
            x = x + 1
        return x * 2

    compiled = capture.compile(scheduled)
    x = torch.randn(3)
    for number in range(12):
        n = torch.tensor(number)
        assert torch.equal(compiled(x, n), scheduled(x, n))
    assert compiled.session.report.graph_count <= 5


def test_what_the_frame_counts_itself() -> None:
    def counted(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        n += 1
        if n * 2 > 5:
            x = x + n
        return x

    mine, theirs, x = torch.tensor(0), torch.tensor(0), torch.randn(3)
    compiled = capture.compile(counted)
    for _ in range(6):
        assert torch.equal(compiled(x, mine), counted(x, theirs))
    assert mine == theirs == 6


def test_a_view_of_a_number_that_is_written_to() -> None:
    def written(x: torch.Tensor) -> Any:
        n = torch.tensor(2)
        n.view(1)[0] = 3
        return x[: n.item()], x.new_zeros(n), n

    x = torch.randn(5)
    for found, wanted in zip(capture.compile(written)(x), written(x), strict=True):
        assert torch.equal(found, wanted)


def listed(x: Any) -> Any:
    size = torch.cat([torch.as_tensor([-1]), torch.as_tensor(x.shape[2:])])
    y = x.reshape(size.tolist())
    last, *others = torch.tensor(x.shape).flip(0)
    spans = torch.tensor([[1, 2], [3, 4]]).t()[1:]
    for start, end in spans:
        y = torch.cat([y, y[start : end + 1]])
    positions = torch.arange(6)[1::2].clone()
    positions += 4
    more = torch.cat([positions, positions[1:]])
    if more.tolist()[-1] == 9 and spans[0, 1] < positions.max():
        y = y + 1
    return y.view(-1, last), x.new_zeros(others[0], positions[1] - positions[0]), more.tolist(), spans.tolist()


def test_short_tensors_of_numbers_alone_are_lists_of_them() -> None:
    x = torch.randn(4, 3, 2)
    compiled = capture.compile(listed, fullgraph=True, dynamic=False)
    for found, wanted in zip(compiled(x), listed(x), strict=True):
        assert torch.equal(found, wanted) if isinstance(wanted, torch.Tensor) else found == wanted


def test_a_list_is_new_at_each_call() -> None:
    def lengths(x: torch.Tensor) -> Any:
        found = torch.tensor([[1, 2], [3, 4]]).tolist()
        found[0].append(x.shape[0])
        return found, torch.tensor([True, False]).tolist(), torch.tensor([]).tolist(), torch.tensor([[7]]).item()

    compiled = capture.compile(lengths, fullgraph=True, dynamic=False)
    assert [compiled(torch.randn(3)) for _ in range(2)] == [lengths(torch.randn(3))] * 2


@pytest.mark.parametrize(
    "write",
    [
        lambda t: t[1:].add_(1),
        lambda t: t[1].__iadd__(1),
        lambda t: t.add_(1),
        lambda t: t.view(2, 1).add_(1),
        lambda t: t.neg_(),
        lambda t: t.data.fill_(5),
        lambda t: torch.neg(t, out=t),
        lambda t: torch._foreach_add_([t[:1], t[:1]], 1),
        lambda t: torch._foreach_neg_([t]),
        lambda t: t.__setitem__(0, 9),
        lambda t: t.copy_(torch.tensor([4, 3])),
        lambda t: t.set_(torch.tensor([4, 3])),
        lambda t: t.resize_(1),
    ],
)
@pytest.mark.parametrize(
    "made", [lambda: torch.tensor([1, 2]), lambda: torch.stack([torch.tensor(1), torch.tensor(2)])]
)
def test_writes_to_short_tensors(made: Any, write: Any) -> None:
    def written(x: torch.Tensor) -> Any:
        t = made()
        u = t.clone()
        write(t)
        return x + t[0].item(), [n + x.shape[0] for n in t.tolist()], x[: u[1]], u.sum().item()

    x = torch.randn(5)
    (*found, last), (*wanted, end) = capture.compile(written)(x), written(x)
    assert (
        torch.equal(found[0], wanted[0]) and found[1] == wanted[1] and torch.equal(found[2], wanted[2]) and last == end
    )


def test_other_numbers_that_lie_in_the_same_memory() -> None:
    def reread(x: torch.Tensor) -> Any:
        bits = torch.tensor(1.0, dtype=torch.float32).view(torch.int32).to(torch.int64).item()
        pairs = torch.tensor([1, 2, 3, 4], dtype=torch.int32).view(torch.int64)
        added = torch.tensor([1, 2], dtype=torch.int32)
        floats = added.view(torch.float32)
        floats += 1
        negated = torch._neg_view(torch.tensor([1, 2]))
        return x + bits, bits > 5, (pairs > 5).tolist(), added.tolist(), (negated + 1).tolist()

    x = torch.randn(5)
    (found, *others), (wanted, *expected) = capture.compile(reread)(x), reread(x)
    assert torch.equal(found, wanted) and others == expected


@pytest.mark.parametrize(
    "decides",
    [
        lambda p: p < 0.0,
        lambda p: 0 > p,
        lambda p: p.ge(0),
        lambda p: torch.le(p, 1.0),
        lambda p: torch.greater(p, 1.5),
        lambda p: (p < -1e-3).item(),
    ],
)
def test_a_decision_that_is_the_same_whatever_is_drawn(decides: Any) -> None:
    def dropped(x: torch.Tensor) -> torch.Tensor:
        for _ in range(2):
            if decides(torch.rand([])):
                x = x + 1
            x = x * 2
        return x + torch.rand(3)

    compiled = capture.compile(dropped, fullgraph=True)
    torch.manual_seed(0)
    found = compiled(torch.ones(3))
    torch.manual_seed(0)
    assert torch.equal(found, dropped(torch.ones(3)))


@pytest.mark.parametrize(
    "decides",
    [
        lambda p: p < 0.1,
        lambda p: p > 0.0,  # which may be drawn
        lambda p: p > -1e-60,  # which is 0 in float32
        lambda p: p.add_(1) > 1.5,
        lambda p: p.view(torch.int32) > 5,
        lambda p: torch.rand([]) < p,
        lambda p: p.neg_() < 0.0,
    ],
)
def test_a_decision_by_what_is_drawn(decides: Any) -> None:
    def dropped(x: torch.Tensor) -> torch.Tensor:
        if decides(torch.rand([])):
            x = x + 1
        return x * 2

    compiled = capture.compile(dropped)
    for seed in range(8):
        torch.manual_seed(seed)
        found = compiled(torch.ones(3))
        torch.manual_seed(seed)
        assert torch.equal(found, dropped(torch.ones(3)))
    assert compiled.session.report.frames == 1


class Started(torch.nn.Module):
    """Starts with what it sees first, as layers do that normalise or quantise; `flag` and `low` are scalars or vectors of one."""

    def __init__(self, *shape: int) -> None:
        super().__init__()
        self.register_buffer("flag", torch.zeros(shape))
        self.register_buffer("low", torch.full(shape, -1e-5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.flag:
            self.flag.fill_(1)
            x = x + 1
        if self.low.min() > -1.1e-5 and self.low.max() < 1.1e-5:
            self.low = self.low + x.min()
        else:
            self.low = self.low * 0.5 + x.min() * 0.5
        return x + self.low


@pytest.mark.parametrize("shape", [(), (1,)])
def test_what_a_modules_flag_decides_is_guarded(shape: tuple[int, ...]) -> None:
    module, plain = Started(*shape), Started(*shape)
    compiled = capture.compile(module)
    for number in range(6):
        x = torch.arange(3.0) + number + 1
        assert torch.equal(compiled(x), plain(x))
        assert torch.equal(module.low, plain.low)
    report = compiled.session.report
    assert report.graph_count == 2 and not report.breaks


class Wide(torch.nn.Module):
    """Starts, and is captured for itself alone."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.register_buffer("flag", torch.zeros(1))
        self.linear = torch.nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.flag:
            self.flag.fill_(1)
            x = x * 2
        return self.linear(x)


def wrapped(call: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    return lambda *args: call(*args)


class Wrapped(Wide):
    forward = wrapped(Wide.forward)


WAYS: dict[str, Callable[[int], Any]] = {
    "modules": Wide,
    "a wrapper of their method": Wrapped,
    "closures with modules": lambda width: wrapped(Wide(width)),
    "closures with methods": lambda width: wrapped(Wide(width).forward),
    "partial applications": lambda width: functools.partial(lambda module, x: module(x), Wide(width)),
}


@pytest.mark.parametrize("made", WAYS.values(), ids=WAYS)
def test_the_flags_of_other_modules_do_not_count(made: Callable[[int], Any]) -> None:
    """Those of the same class, compiled one by one: each turns its own."""
    for width in range(3, 11):
        compiled = capture.compile(made(width))
        for _ in range(3):
            compiled(torch.ones(2, width))
        report = capture.report(compiled)
        assert report.graph_count == 2 and not report.breaks, width


def test_a_decision_that_turns_at_each_call_is_not_kept() -> None:
    class Turning(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            for name in "abcd":
                self.register_buffer(name, torch.zeros(1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for flag in (self.a, self.b, self.c, self.d):
                x = x + 1 if flag > 0 else x * 2
            return x

    module, plain = Turning(), Turning()
    compiled = capture.compile(module)
    x = torch.randn(3)
    for number in range(40):
        for place, name in enumerate("abcd"):
            for each in (module, plain):
                getattr(each, name).fill_(float(number * 7 >> place & 1) + number * 1e-3 * (number * 7 >> place & 1))
        assert torch.equal(compiled(x), plain(x))
    report = compiled.session.report
    assert report.frames < 20 and not report.skipped


def test_a_guard_on_a_decision_keeps_nothing_of_the_evaluation() -> None:
    module = Started(1)
    compiled = capture.compile(module)
    for number in range(3):
        compiled(torch.arange(3.0) + number + 1)
    assert compiled.session.report.graph_count == 2
    gc.collect()
    assert not [each for each in gc.get_objects() if type(each) in (ScalarTensors, Held)]


class Written(torch.nn.Module):
    """Writes to its flag, and asks it then."""

    def __init__(self, write: Callable[[torch.Tensor, torch.Tensor], object], *shape: int) -> None:
        super().__init__()
        self.register_buffer("flag", torch.zeros(shape))
        self.write = write

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.write(self.flag, x)
        x = x + 1 if self.flag else x * 2
        return x * int(self.flag)


CONSTANT: dict[str, Callable[[torch.Tensor, torch.Tensor], object]] = {
    "fill": lambda flag, x: flag.fill_(1),
    "zero": lambda flag, x: flag.zero_(),
    "copy": lambda flag, x: flag.copy_(torch.tensor(3.0)),
    "all of it": lambda flag, x: operator.setitem(flag, ..., 2),
    "its data": lambda flag, x: flag.data.fill_(1),
    "added to": lambda flag, x: flag.fill_(1).add_(2),
}


@pytest.mark.parametrize("shape", [(), (1,)])
@pytest.mark.parametrize("write", CONSTANT.values(), ids=CONSTANT)
def test_what_constants_are_written_over_is_known(
    write: Callable[[torch.Tensor, torch.Tensor], object], shape: tuple[int, ...]
) -> None:
    module, plain = Written(write, *shape), Written(write, *shape)
    compiled = capture.compile(module)
    for number in range(4):
        x = torch.arange(3.0) + number
        assert torch.equal(compiled(x), plain(x))
        assert torch.equal(module.flag, plain.flag)
        module.flag.add_(number)
        plain.flag.add_(number)
    report = compiled.session.report
    assert report.graph_count == 1 and not report.breaks


def test_what_data_is_written_over_ends_the_graph() -> None:
    def written(flag: torch.Tensor, x: torch.Tensor) -> None:
        flag.fill_(1)
        flag.fill_(x.sum())

    module, plain = Written(written), Written(written)
    compiled = capture.compile(module)
    for x in (torch.ones(3), torch.zeros(3), torch.ones(3)):
        assert torch.equal(compiled(x), plain(x))
    assert compiled.session.report.frames == 1  # both ways of it are in the graph


def test_what_is_written_to_memory_of_others_is_not_known() -> None:
    """From the first call on, or from a later one."""

    class Two(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("flag", torch.zeros(1))
            self.register_buffer("other", torch.zeros(1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.flag.fill_(1)
            self.other.fill_(0)
            return x + 1 if self.flag else x * 2

    for shared_at in (0, 1):
        module, plain = Two(), Two()
        compiled = capture.compile(module)
        for number in range(3):
            if number == shared_at:
                module.other, plain.other = module.flag.view(1), plain.flag.view(1)
            assert torch.equal(compiled(torch.ones(2)), plain(torch.ones(2))), (shared_at, number)


def test_a_part_that_is_written_over_is_not_all() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        known = torch.zeros(2)
        known[0] = 1
        known[1:].fill_(x.sum())
        return x + 1 if known[1] else x * 2

    compiled = capture.compile(fn)
    for x in (torch.ones(2), torch.zeros(2)):
        assert torch.equal(compiled(x), fn(x))


def _decides_by_one(first: Any, second: Any, x: torch.Tensor) -> torch.Tensor:
    first.fill_(1)
    second.fill(0) if isinstance(second, np.ndarray) else second.zero_()
    return x + 1 if first else x - 1


def _apart() -> Any:
    return torch.tensor(3.0), torch.tensor(3.0)


def _over_one_array() -> Any:
    array = np.array(3.0, dtype=np.float32)
    return torch.from_numpy(array), torch.from_numpy(array)


def _array_of_a_tensor() -> Any:
    tensor = torch.tensor(3.0)
    return torch.from_numpy(tensor.numpy()), tensor


@pytest.mark.parametrize("order", [(0, 1, 2, 0), (1, 0, 2), (2, 0, 1)])
def test_memory_of_someone_else_may_be_written_to_through_another_storage(order: tuple[int, ...]) -> None:
    kinds = (_apart, _over_one_array, _array_of_a_tensor)
    compiled = capture.compile(_decides_by_one)
    for which in order:
        x = torch.randn(2)
        assert torch.equal(compiled(*kinds[which](), x), _decides_by_one(*kinds[which](), x))


class OverAnArray(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.array = np.array(2.0)
        self.register_buffer("flag", torch.from_numpy(self.array))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.flag.fill_(1)
        self.array.fill(0)
        return x + 1 if self.flag else x - 1


def test_a_buffer_over_an_array_holds_what_is_written_to_that() -> None:
    x = torch.randn(2)
    assert torch.equal(capture.compile(OverAnArray())(x), x - 1)


def test_a_flag_over_memory_of_someone_else_that_alone_is_written_to_is_known() -> None:
    def program(flag: Any, x: torch.Tensor) -> torch.Tensor:
        flag.fill_(1)
        return x + 1 if flag else x - 1

    compiled = capture.compile(program, fullgraph=True)
    x = torch.randn(2)
    for flag in (torch.from_numpy(np.array(2.0)), torch.tensor(2.0, dtype=torch.float64)):
        assert torch.equal(compiled(flag, x), x + 1)
    assert compiled.session.report.graph_count == 1
