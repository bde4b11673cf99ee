"""What a captured frame does to objects from outside is done to the real objects, in and around graph breaks."""

from __future__ import annotations

import collections
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch

import capture


class Box:
    def __init__(self) -> None:
        self.items: list[Any] = [1]
        self.table: dict[str, Any] = {"a": 1, "b": 2}
        self.seen: set[int] = {1}
        self.value: Any = 0


class Guarded:
    def __init__(self) -> None:
        object.__setattr__(self, "writes", [])

    def __setattr__(self, name: str, value: Any) -> None:
        self.writes.append(name)
        object.__setattr__(self, name, value)


@pytest.mark.parametrize("broken", [False, True])
def test_changes_of_arguments(broken: bool) -> None:
    def fn(x: torch.Tensor, box: Box, extra: list[Any], table: dict[Any, Any]) -> torch.Tensor:
        y = x + 1
        box.items.append(y)
        box.table["c"] = y
        del box.table["a"]
        box.seen.add(5)
        box.value = box.items
        extra.insert(0, box)
        table[3] = "three"
        if broken:
            float((y * 0).sum())
        box.items.append(len(extra))
        table.pop("k")
        return y

    def outcome(call: Any) -> Any:
        box, extra, table = Box(), [7], {"k": 1, "z": 2}
        kept = box.items
        x = torch.ones(2)
        for _ in range(2):
            call(x, box, extra, table)
            table["k"] = 0
            box.table["a"] = 9
        assert box.value is box.items is kept
        assert extra[0] is box
        return (
            [v.tolist() if isinstance(v, torch.Tensor) else v for v in box.items],
            list(box.table),
            box.seen,
            len(extra),
            table,
        )

    assert outcome(capture.compile(fn)) == outcome(fn)


def test_setattr_override_is_respected() -> None:
    def fn(x: torch.Tensor, g: Guarded) -> torch.Tensor:
        g.a = x + 1
        g.b = 2
        return g.a * g.b

    g = Guarded()
    out = capture.compile(fn)(torch.ones(2), g)
    assert g.writes == ["a", "b"]
    assert g.b == 2
    assert torch.equal(out, torch.full((2,), 4.0))
    assert torch.equal(g.a, torch.full((2,), 2.0))


def test_one_object_by_two_names() -> None:
    def fn(x: torch.Tensor, a: list[Any], b: list[Any]) -> Any:
        a.append(x + 1)
        return len(b), a is b

    compiled = capture.compile(fn)
    x = torch.ones(1)
    shared: list[Any] = []
    assert compiled(x, shared, shared) == (1, True)
    assert compiled(x, [], []) == (0, False)
    again: list[Any] = []
    assert compiled(x, again, again) == (1, True)


def test_one_tensor_by_two_names() -> None:
    def fn(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        a.add_(1)
        return a + b

    compiled = capture.compile(fn)
    assert torch.equal(compiled(torch.ones(2), torch.ones(2)), torch.full((2,), 3.0))
    x = torch.ones(2)
    assert torch.equal(compiled(x, x), torch.full((2,), 4.0))
    assert torch.equal(compiled(torch.ones(2), torch.ones(2)), torch.full((2,), 3.0))


def test_closure_cell_is_written() -> None:
    total = torch.zeros(2)
    calls = 0

    def fn(x: torch.Tensor) -> torch.Tensor:
        nonlocal total, calls
        total = total + x
        calls += 1
        return total * 2

    compiled = capture.compile(fn)
    for _ in range(3):
        out = compiled(torch.ones(2))
    assert calls == 3
    assert torch.equal(total, torch.full((2,), 3.0))
    assert torch.equal(out, total * 2)


def test_a_cell_that_is_filled_and_emptied_between_breaks() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        done = torch.tensor(False)
        while not bool(done):  # breaks the graph; by the next one the cell is as empty as before
            found = x + 1
            x = (lambda: found)() * 2
            done = x.sum() > 100
            del found
        return x

    assert torch.equal(capture.compile(fn)(torch.ones(3)), fn(torch.ones(3)))


def test_two_closures_of_one_code() -> None:
    def make() -> Any:
        count = [0]
        last = None

        def fn(x: torch.Tensor) -> Any:
            nonlocal last
            last = x + 1
            count[0] += 1
            return last

        return fn, lambda: (count, last)

    first, read_first = make()
    second, read_second = make()
    for fn in (first, second, second):
        capture.compile(fn)(torch.ones(1))
    assert read_first()[0] == [1]
    assert read_second()[0] == [2]
    assert read_second()[1] is not None


def test_module_attributes_and_buffers() -> None:
    class Counter(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("total", torch.zeros(2))
            self.calls = 0
            self.cache: dict[str, Any] = {}

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            self.total = self.total + x
            self.cache["last"] = x * 2
            return self.total

    eager, module = Counter(), Counter()
    compiled = capture.compile(module)
    for _ in range(3):
        assert torch.equal(compiled(torch.ones(2)), eager(torch.ones(2)))
    assert module.calls == 3
    assert torch.equal(module.total, eager.total)
    assert "total" in dict(module.named_buffers())
    assert torch.equal(module.cache["last"], torch.full((2,), 2.0))


def test_grad_mode_left_changed() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        torch.set_grad_enabled(False)
        return y + x * 3

    try:
        capture.compile(fn)(torch.ones(2))
        assert not torch.is_grad_enabled()
    finally:
        torch.set_grad_enabled(True)


def test_effects_before_an_exception() -> None:
    def fn(x: torch.Tensor, log: list[Any]) -> torch.Tensor:
        log.append(1)
        y = x + 1
        log.append(y.shape[0])
        raise ValueError("out")

    log: list[Any] = []
    with pytest.raises(ValueError, match="out"):
        capture.compile(fn)(torch.ones(3), log)
    assert log == [1, 3]


def test_arguments_that_share_memory() -> None:
    def fn(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        a.add_(1)
        return a + b

    def backend(module: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        def separate(a: torch.Tensor, b: torch.Tensor) -> Any:
            before = b.clone()
            (out,) = module.forward(a, b)
            return (out - b + before,)  # a compiler that takes its inputs for separate

        return separate

    compiled = capture.compile(fn, backend)
    assert torch.equal(compiled(torch.ones(2), torch.ones(2)), torch.full((2,), 3.0))
    base = torch.ones(4)
    other = torch.ones(4)
    expected = fn(other[:2], other[1:3])
    assert torch.equal(compiled(base[:2], base[1:3]), expected)


def test_what_a_frame_did_not_change_in_a_dict_is_not_read() -> None:
    def fn(x: torch.Tensor, table: dict[str, Any]) -> torch.Tensor:
        y = x + 1
        table["a"] = y
        return y

    compiled = capture.compile(fn)
    x = torch.ones(1)
    for table in ({"a": 1, "b": 2}, {"a": 1}, {"b": object()}, {}):
        mine = dict(table)
        compiled(x, mine)
        fn(x, table)
        assert mine == table
        assert list(mine) == list(table)


def test_random_numbers_nobody_reads_are_drawn() -> None:
    def layers(x: torch.Tensor) -> torch.Tensor:
        for layer in range(3):
            if random.uniform(0, 1) < 0.0:
                continue
            x = x + layer
        return x

    x, states = torch.ones(3), []
    for run in (layers, capture.compile(layers, fullgraph=True)):
        random.seed(4)
        for _ in range(2):
            run(x)
        states.append(random.getstate())
    assert states[0] == states[1]


class _Says:
    """Appends to a list when it dies."""

    def __init__(self, log: list[str], name: str) -> None:
        self.log, self.name = log, name

    def __del__(self) -> None:
        self.log.append(self.name)


def test_append_while_the_object_before_dies() -> None:
    def program(x: torch.Tensor, holder: dict[str, Any], log: list[str]) -> torch.Tensor:
        holder["one"] = None
        log.append("replaced")
        return x + 1

    log: list[str] = []
    holder: dict[str, Any] = {"one": _Says(log, "died")}
    capture.compile(program)(torch.ones(2), holder, log)
    assert sorted(log) == ["died", "replaced"]


def test_append_while_another_thread_appends() -> None:
    log: list[str] = []

    def backend(graph: Any, inputs: Any) -> Any:
        def run(*args: Any) -> Any:
            log.append("other")  # as a thread would, while the graph runs
            return graph(*args)

        return run

    def program(x: torch.Tensor) -> torch.Tensor:
        log.append("mine")
        return x + 1

    compiled = capture.compile(program, backend=backend)
    compiled(torch.ones(2))
    assert sorted(log) == ["mine", "other"]


def _grown_and_shrunk() -> set[int]:
    """A set with room for many: another order than one made of its elements."""
    made = set(range(200))
    made -= set(range(3, 199))
    made.discard(2)
    for i in range(20, 200, 3):
        made.add(i)
    for i in range(20, 200, 3):
        made.remove(i)
    return made


def _adds(s: set[int]) -> None:
    s.add(8)
    s.add(64)


def _comes_again(s: set[int]) -> None:
    s.discard(1)
    s.add(8)
    s.add(1)


def _of_a_list(s: set[int]) -> None:
    s.update([64, 8, 24])
    s.discard(0)


def _empties(s: set[int]) -> None:
    s.clear()
    s.add(16)
    s.add(8)


@pytest.mark.parametrize("change", [_adds, _comes_again, _of_a_list, _empties])
def test_order_of_a_set_that_was_changed(change: Any) -> None:
    def program(x: torch.Tensor, s: set[int]) -> torch.Tensor:
        change(s)
        return x + len(s)

    mine, plain = _grown_and_shrunk(), _grown_and_shrunk()
    compiled = capture.compile(program)
    for _ in range(2):
        assert torch.equal(compiled(torch.ones(2), mine), program(torch.ones(2), plain))
        assert list(mine) == list(plain)


def test_data_of_another_size_beside_a_gradient() -> None:
    def program(x: torch.Tensor, p: torch.Tensor) -> torch.Tensor:
        p.data = x * 2
        return p * x

    compiled = capture.compile(program)
    mine, plain = (torch.nn.Parameter(torch.ones(3)) for _ in range(2))
    for p in (mine, plain):
        p.grad = torch.ones(3)
    for n in (3, 4, 4, 3):
        assert torch.equal(compiled(torch.ones(n), mine), program(torch.ones(n), plain))
        assert torch.equal(mine, plain) and mine.grad is not None


@pytest.mark.filterwarnings("ignore::capture.CaptureWarning")
def test_data_that_a_tensor_has_already() -> None:
    """What moving or casting a module does within the frame, where there is nothing to move or cast."""

    def program(block: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        block.layer = block.layer.to(x.dtype)
        y.data = y
        return block.layer(x) * y

    block = torch.nn.Module()
    block.layer = torch.nn.Linear(3, 3)
    compiled = capture.compile(program, fullgraph=True)
    weight, x = block.layer.weight, torch.ones(2, 3)
    y = torch.ones(2, 3, requires_grad=True) * 2
    found = compiled(block, x, y)
    found.sum().backward()
    assert torch.equal(found, program(block, x, y)) and block.layer.weight is weight and weight.grad is not None
    plain = capture.compile(program)
    assert torch.equal(plain(block, x.double(), y.double()), program(block, x.double(), y.double()))


@pytest.mark.filterwarnings("ignore::capture.CaptureWarning")
def test_a_gradient_of_another_dtype_than_its_tensor_has_now() -> None:
    def program(p: torch.Tensor) -> Any:
        return p * 2, p.grad.dtype if p.grad is not None else None

    p = torch.nn.Parameter(torch.ones(3))
    p.sum().backward()
    p.data = p.data.double()
    found, dtype = capture.compile(program)(p)
    assert torch.equal(found, p * 2) and dtype is torch.float32


@pytest.mark.filterwarnings("ignore::capture.CaptureWarning")
def test_whose_data_a_tensor_can_get() -> None:
    def program(x: torch.Tensor, y: torch.Tensor) -> bool:
        return torch._has_compatible_shallow_copy_type(x, y)  # type: ignore[attr-defined]

    compiled = capture.compile(program)
    tensors = [torch.ones(2), torch.ones(2, 1).double(), torch.ones(2).to_sparse(), torch.ones(2, device="meta")]
    for one in tensors:
        for other in tensors:
            assert compiled(one, other) is program(one, other)
    capture.compile(program, fullgraph=True)(tensors[0], tensors[1])


def _with_a_past(seed: int) -> set[int]:
    draw, made = random.Random(seed), set[int]()
    for _ in range(14):
        made.add(draw.randrange(70))
        if draw.random() < 0.4:
            made.pop()
        if draw.random() < 0.3:
            made.discard(draw.randrange(70))
    made.add(1)
    return made


def test_elements_are_taken_from_a_set_from_outside_as_it_would_give_them() -> None:
    def run(x: torch.Tensor, elements: set[int]) -> tuple[torch.Tensor, list[int]]:
        elements.add(40)
        got = [elements.pop()]
        elements.discard(3)
        elements.add(48)
        got += elements
        return x + got[0], got

    compiled, x = capture.compile(run, fullgraph=True), torch.ones(2)
    for seed in [*range(12), *range(12)]:
        elements, same = _with_a_past(seed), _with_a_past(seed)
        assert str(compiled(x, elements)) == str(run(x, same))
        for each in (elements, same):
            each.update([7, 71])
        assert [elements.pop() for _ in range(len(elements))] == [same.pop() for _ in range(len(same))]


@pytest.mark.parametrize("taken", [0, 2])
def test_elements_are_taken_from_an_emptied_set_from_outside(taken: int) -> None:
    def run(x: torch.Tensor, elements: set[int]) -> tuple[torch.Tensor, int]:
        for _ in range(min(taken, len(elements))):
            elements.pop()
        elements.clear()
        elements.update([1, 6, 3])
        return x + 1, elements.pop()

    compiled, x = capture.compile(run), torch.ones(2)
    for count in (0, 2, 3, 5):
        elements, same = set(range(7)), set(range(7))
        for each in (elements, same):
            for _ in range(count):
                each.pop()
        assert compiled(x, elements)[1] == run(x, same)[1] and list(elements) == list(same)
        assert elements.pop() == same.pop()


def test_sets_of_equal_elements_of_other_classes() -> None:
    def run(x: torch.Tensor, elements: set[Any]) -> tuple[torch.Tensor, list[str]]:
        return x + 1, [repr(each) for each in elements]

    compiled, x = capture.compile(run), torch.ones(2)
    for elements in ({1}, {True}, {1.0}, {0.0}, {-0.0}):
        assert compiled(x, elements)[1] == run(x, elements)[1]


def test_a_function_made_anew_within_what_is_given() -> None:
    """Another one of the same code will do wherever a call brings it; one that lasts is asked for itself."""

    class Given:
        pass

    def handing(value: Any) -> Callable[[], Any]:
        return lambda: value

    def fn(x: torch.Tensor, given: Any, table: list[Any]) -> torch.Tensor:
        kept, (_, read) = given.last()
        return x * kept + read() + table[0](x)

    compiled = capture.compile(fn)
    for at in range(4):
        given = Given()
        given.last = handing((torch.tensor(float(at)), ("read", handing(torch.ones(2) * at))))
        table = [lambda x, at=at: x + at] if at > 2 else [lambda x: x * 2]
        assert torch.equal(compiled(torch.ones(2), given, table), fn(torch.ones(2), given, table))
        assert compiled.session.report.graph_count == (1 if at < 3 else 2)


def test_attributes_of_tensors() -> None:
    module = torch.nn.Linear(2, 2)

    def program(x: Any) -> Any:
        x.calls = getattr(x, "calls", 0) + 1
        for place, parameter in enumerate(module.parameters()):
            parameter.place = place
        made = x * x.calls
        made.calls, made.origin = x.calls, x
        return made, hasattr(made.detach(), "calls")

    compiled = capture.compile(program, fullgraph=True)
    x, y = torch.ones(2), torch.ones(2)
    for calls in (1, 2, 3):
        made, others = compiled(x)
        assert (x.calls, made.calls, made.origin is x, others) == (calls, calls, True, False)  # type: ignore[attr-defined]
        assert torch.equal(made, y * calls)
    assert [parameter.place for parameter in module.parameters()] == [0, 1]  # type: ignore[attr-defined]
    assert compiled(y)[0].calls == 1


class Ordered:
    def __init__(self, n: int) -> None:
        self.n = n

    def __lt__(self, other: Ordered) -> bool:
        if self.n == 13:
            raise ValueError("thirteen")
        return self.n < other.n


def sorted_halfway(items: list[Any]) -> None:
    items.sort()


def changed_as_it_is_sorted(items: list[Any]) -> None:
    items.sort(key=lambda each: items.append(each) or each.n)  # type: ignore[func-returns-value]


def made_anew_halfway(items: list[Any]) -> None:
    items.__init__(given_halfway())  # type: ignore[misc]


def given_halfway() -> Any:
    yield Ordered(1)
    raise ValueError("no more")


def made_anew_of_itself(items: list[Any]) -> None:
    items.__init__(items)  # type: ignore[misc]


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        (list, sorted_halfway),
        (list, changed_as_it_is_sorted),
        *((kind, change) for kind in (list, collections.deque) for change in (made_anew_halfway, made_anew_of_itself)),
    ],
)
@pytest.mark.parametrize("broken", [False, True])
def test_lists_that_change_until_something_raises(kind: type, change: Any, broken: bool) -> None:
    def fn(x: torch.Tensor, items: Any) -> Any:
        told = ""
        try:
            change(items)
        except ValueError as error:
            told = str(error)
        if broken:
            float((x * 0).sum())
        return x + 1, told, [each.n for each in items]

    def outcome(call: Any) -> Any:
        items = kind(map(Ordered, (3, 2, 7, 1, 5, 13, 0)))
        found = call(torch.ones(2), items)
        return found[1:], [each.n for each in items]

    expected = outcome(fn)
    compiled = capture.compile(fn, lambda graph, inputs: graph.forward)
    for _ in range(2):
        assert outcome(compiled) == expected
