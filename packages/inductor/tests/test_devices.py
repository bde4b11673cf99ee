"""What is true of a device its backend says: nothing else asks what device it is, and what it says is what is done."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from inductor_tracing import trace

import inductor
from inductor import CompiledGraph, DeviceTraits, Options, ReferenceBackend, compile_graph, lower, schedule
from inductor.codegen.guards import DeviceGuards, without_head
from inductor.codegen.wrapper import generate
from symshapes import FakeMode

TYPES = ("cpu", "cuda", "xpu", "mps", "hpu", "mtia", "xla", "ipu", "privateuseone")

ALLOWED = {
    ("host.py", "names 'cpu'"): "where the compiler itself computes",
    (
        "loading.py",
        "compares a device's type",
    ): "the compiler's own numbers lie in the host's memory, wherever the program's go",
    ("backends.py", "compares a device's type"): "a backend is of the type that it is found by",
    ("cache/tensors.py", "compares a device's type"): "files are read into the host's memory, and written from there",
}
"""What may be asked, with the reason."""


def questions(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Where a module asks what type a device is: line and how."""
    texts = {
        node.body[0].value
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        asked: list[ast.expr] = []
        if isinstance(node, ast.Compare):
            asked = [node.left, *node.comparators]
        elif isinstance(node, ast.Match):
            asked = [node.subject]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "startswith":
            asked = [node.func.value]
        if any(isinstance(part, ast.Attribute) and part.attr in ("type", "device_type") for part in asked):
            yield node.lineno, "compares a device's type"
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in texts:
            words = node.value.removeprefix("torch.").partition(":")[0].partition(".")[0]
            if words in TYPES:
                yield node.lineno, f"names {node.value!r}"
        if isinstance(node, ast.Attribute) and node.attr in {*TYPES, *(f"is_{kind}" for kind in TYPES)}:
            yield node.lineno, f"reads .{node.attr}"


def test_nothing_asks_what_type_a_device_is() -> None:
    root = Path(inductor.__file__).parent
    found, used = [], set()
    for path in sorted(root.rglob("*.py")):
        place = path.relative_to(root).as_posix()
        if place.startswith("triton/"):
            continue
        for line, what in questions(ast.parse(path.read_text())):
            if (place, what) in ALLOWED:
                used.add((place, what))
            else:
                found.append(f"{place}:{line}: {what}")
    assert not found, "ask the device's traits"
    assert used == ALLOWED.keys()


def test_the_check_sees_every_spelling() -> None:
    text = (
        'd.type == "x"\nd.device.type in names\nmatch d.type:\n    case _: pass\nd.type.startswith("c")\n'
        'x = torch.device("cuda:0")\nbind("torch.cuda.device")\ntorch.cuda.synchronize()\nt.is_cpu\nbackend.device_type != y\n'
    )
    assert sorted(line for line, _ in questions(ast.parse(text))) == [1, 2, 3, 5, 6, 7, 8, 9, 10]


class Other(ReferenceBackend):
    """The interpreter, as a device of which something else is true."""

    def __init__(self, **facts: Any) -> None:
        super().__init__()
        self.traits = replace(DeviceTraits(orders_writes=True), **facts)


def compiled(function: Any, *inputs: torch.Tensor, options: Options | None = None, **facts: Any) -> CompiledGraph:
    graph, expected = trace(function, *inputs)
    found = compile_graph(graph, inputs, options, backends={"cpu": Other(**facts)})
    for got, want in zip(found(list(inputs)), expected, strict=True):
        torch.testing.assert_close(got, want)
    return found


def total(x: torch.Tensor) -> torch.Tensor:
    return x.exp().sum() + 1


def test_rows_that_are_not_shared_are_split() -> None:
    x = torch.randn(4, 1 << 14)
    assert compiled(total, x).stats.launches == 1
    assert compiled(total, x, shares_rows=False).stats.launches == 2
    assert compiled(total, x, options=Options(split_reductions=True)).stats.launches == 2
    assert compiled(total, x, options=Options(split_reductions=False), shares_rows=False).stats.launches == 1


def test_a_long_stored_row_stays_a_kernel_of_its_own_where_rows_are_not_shared() -> None:
    x, options = torch.randn(2, 1 << 10), Options(split_reductions=False, max_serial_row=1 << 8)

    def both(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x.exp()
        return y, y.sum(-1)

    assert compiled(both, x, options=options).stats.launches == 1
    assert compiled(both, x, options=options, shares_rows=False).stats.launches == 2


def added(x: torch.Tensor, index: torch.Tensor, more: torch.Tensor) -> torch.Tensor:
    return x.index_add(0, index, more)


PLACES = (torch.zeros(4, 3), torch.tensor([0, 1, 0]), torch.ones(3, 3))


@pytest.mark.parametrize(
    ("orders", "unordered", "externs"), [(True, "auto", 0), (False, "auto", 1), (True, True, 1), (False, False, 0)]
)
def test_under_determinism_unordered_writes_are_atens(orders: bool, unordered: Any, externs: int) -> None:
    options = Options(unordered_writes=unordered)
    assert compiled(added, *PLACES, options=options, orders_writes=orders).stats.externs == 0
    torch.use_deterministic_algorithms(True)
    try:
        assert compiled(added, *PLACES, options=options, orders_writes=orders).stats.externs == externs
    finally:
        torch.use_deterministic_algorithms(False)


def test_sums_of_a_dtype_that_a_device_cannot_add_to_are_atens() -> None:
    assert compiled(added, *PLACES, accumulates=(torch.float64,)).stats.externs == 1


SUMS = {
    "index_add": lambda x, index, more: x.index_add(0, index, more),
    "index_put": lambda x, index, more: x.index_put((index,), more, accumulate=True),
    "scatter_add": lambda x, index, more: x.scatter_add(0, index[:, None].expand(more.shape), more),
}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", SUMS)
def test_many_sums_in_half_precision_are_made_in_float32(name: str, dtype: torch.dtype) -> None:
    """Rounded once: half precision counts ones up to 256 or 2048 only."""
    x, index = torch.zeros(4, 3, dtype=dtype), torch.arange(9000) % 2
    more = torch.zeros(9000, 3, dtype=dtype)
    found = compiled(SUMS[name], x, index, more)
    assert found.stats.externs == 0
    (result,) = found([x, index, more + 1])
    expected = torch.tensor([4500.0, 4500.0, 0.0, 0.0]).to(dtype)
    assert result.dtype is dtype and torch.equal(result, expected[:, None].expand(4, 3))
    few = compiled(SUMS[name], torch.zeros(40, 3, dtype=dtype), index[:4], more[:4])
    assert few.stats.externs == 1  # whose copies there and back would cost more


def test_what_a_device_cannot_combine_with_memory_is_atens() -> None:
    def largest(x: torch.Tensor, index: torch.Tensor, more: torch.Tensor) -> torch.Tensor:
        return x.scatter_reduce(0, index[:, None].expand_as(more), more, "amax")

    assert compiled(largest, *PLACES, combines=("add", "max")).stats.externs == 0
    assert compiled(largest, *PLACES).stats.externs == 1


def test_operands_are_cast_where_eager_casts_them() -> None:
    """1.203125 is the nearest number to 1.2 in bfloat16: above it, and equal to itself after the cast."""
    x = torch.tensor([1.203125], dtype=torch.bfloat16)
    graph, (expected,) = trace(lambda x: x > 1.2, x)
    results = [
        compile_graph(graph, [x], backends={"cpu": Other(casts_operands=casts)})([x])[0] for casts in (True, False)
    ]
    assert torch.equal(results[0], expected) and not torch.equal(results[1], expected)


def test_without_a_backend_the_defaults_hold() -> None:
    assert inductor.traits_of(torch.device("meta")) == DeviceTraits()


def wrapper(*devices: str, module: str | None) -> str:
    """The wrapper of a function that computes on each of these devices."""
    with FakeMode():
        inputs = [torch.empty(4, device=device) for device in devices]
        graph, _ = trace(lambda *inputs: [x + 1 for x in inputs], *inputs)
    traits = DeviceTraits(module=module)
    return generate(schedule(lower(graph, inputs, traits=lambda _: traits)), traits=lambda _: traits).text


def test_a_wrapper_switches_to_its_device_as_the_traits_say() -> None:
    assert "with" not in wrapper("cuda:1", module=None)
    one = wrapper("cuda:1", module="torch.accelerators")
    assert "_current_device = torch.accelerators.current_device\n_device = torch.accelerators.device\n" in one
    assert "    if _current_device() != 1:\n        with _device(1):\n            return _itself()(args)\n" in one
    two = wrapper("cuda:1", "cuda:0", module="torch.accelerators")
    assert "with _device(0): " in two and "with _device(1): " in two and "return _itself()(args)" not in two


def test_what_tells_the_current_device_is_what_the_traits_name() -> None:
    made = DeviceGuards(
        [torch.device("cuda:1")],
        lambda _: DeviceTraits(module="torch.cuda", current="torch.fast"),
        lambda name, value: f"{name}:{value}",
    )
    assert made.head()[0] == "if _current_device:torch.fast() != 1:"


def test_devices_of_two_types_have_a_guard_each() -> None:
    bound: dict[str, str] = {}

    def bind(name: str, value: str) -> str:
        name = name if bound.get(name, value) == value else f"{name}_{len(bound)}"
        bound[name] = value
        return name

    devices = [torch.device("cuda:1"), torch.device("xpu:2"), torch.device("cpu"), torch.device("xpu:3")]
    guards = DeviceGuards(devices[:3], lambda device: DeviceTraits(module=f"torch.{device.type}"), bind)
    head = guards.head()
    assert len(head) == 6 and guards.within(devices[1], "f()") == "f()"
    rest = [*head, "x = args"]
    assert without_head(rest) == "not (_current_device() != 1) and not (_current_device_2() != 2)"
    assert rest == ["x = args"]
    assert bound["_device_3"] == "torch.xpu.device"
    guards = DeviceGuards(devices, lambda device: DeviceTraits(module=f"torch.{device.type}"), bind)
    assert guards.within(devices[1], "f()").endswith("(2): f()") and len(guards.head()) == 3


def test_what_a_backend_says_is_part_of_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inductor.backends._registered", {})
    x = torch.randn(4)
    graph, _ = trace(torch.sin, x)
    found = []
    for facts in ({}, {"shares_rows": False}, {}):
        inductor.register_backend(Other(**facts))
        found.append(compile_graph(graph, [x], Options(cache_dir=str(tmp_path))).stats.cache)
    assert found == ["miss", "miss", "hit"]
