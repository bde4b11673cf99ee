"""`described`: whatever compiling depends on changes the text, and what nobody understands to the end has none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import fx

from aotgrad import Undescribable, decomposition, described
from aotgrad.decompositions.registry import TABLE
from symshapes import DimPolicy, FakeMode, LazyGraphModule, ShapeEnv, register_rule, reset_rules
from symshapes.rules.registry import RULES


def program(
    function: Any = F.relu, target: str = "call_function", args: tuple[Any, ...] = (), **meta: Any
) -> fx.GraphModule:
    graph = fx.Graph()
    x, y = graph.placeholder("x"), graph.placeholder("y")
    called = getattr(graph, target)(function, (x, *args))
    called.meta |= meta
    graph.output((called, y))
    return LazyGraphModule(torch.nn.Module(), graph)


def fakes(*tensors: Any) -> list[Any]:
    mode = FakeMode()
    return [mode.from_tensor(t) if isinstance(t, torch.Tensor) else t for t in tensors]


def text(module: fx.GraphModule | None = None, *inputs: Any, around: Any = None) -> str:
    given = inputs or (torch.ones(2, 3), torch.ones(3))
    with around or nullcontext():
        return described(module or program(), fakes(*given)).text


def shared() -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.ones(2, 3)
    return x, x[0]


def test_the_same_twice() -> None:
    assert text() == text()
    assert described(program(), fakes(torch.ones(2), 3)).device_types == frozenset()
    assert described(program(val=torch.ones(1)), fakes(torch.ones(2), 3)).device_types == {"cpu"}


@pytest.mark.parametrize(
    "other",
    [
        lambda: text(program(F.gelu)),
        lambda: text(program("relu", "call_method")),
        lambda: text(program(args=(True,))),
        lambda: text(program(args=(1,))),
        lambda: text(program(args=(1.0,))),
        lambda: text(program(args=(0.1 + 0.2,))),
        lambda: text(program(args=(0.3,))),
        lambda: text(program(args=((1,),))),
        lambda: text(program(args=([1],))),
        lambda: text(program(args=(slice(1),))),
        lambda: text(program(args=(torch.float16,))),
        lambda: text(program(args=(torch.device("cpu"),))),
        lambda: text(program(effect="other")),
        lambda: text(program(val=torch.ones(1))),
        lambda: text(program(val=(torch.ones(1), torch.ones(1)))),
        lambda: text(program(val=torch.ones(1, device="meta"))),
        lambda: text(None, torch.ones(3, 2), torch.ones(3)),
        lambda: text(None, torch.ones(3, 2).t(), torch.ones(3)),
        lambda: text(None, torch.ones(2, 3, dtype=torch.float64), torch.ones(3)),
        lambda: text(None, torch.ones(2, 3, requires_grad=True), torch.ones(3)),
        lambda: text(None, torch.ones(2, 3, requires_grad=True) * 2, torch.ones(3)),
        lambda: text(None, torch.ones(2, 3, device="meta"), torch.ones(3)),
        lambda: text(None, torch.ones(2, 3, dtype=torch.complex64).conj(), torch.ones(3)),
        lambda: text(None, torch.ones(2, 3, dtype=torch.complex64), torch.ones(3)),
        lambda: text(None, *shared()),
        lambda: text(None, torch.ones(2, 3), torch.ones(2, 3)[1]),
        lambda: text(None, torch.ones(2, 3), 1),
        lambda: text(None, torch.ones(2, 3), 1.0),
        lambda: text(None, torch.ones(2, 3), True),
        lambda: text(around=torch.no_grad()),
        lambda: text(around=torch.inference_mode()),
        lambda: text(around=torch.autocast("cpu", torch.bfloat16)),
        lambda: text(around=torch.autocast("cpu", torch.float16)),
    ],
)
def test_a_difference_is_told(other: Callable[[], str]) -> None:
    assert other() != text()


def test_all_of_these_differ_among_themselves() -> None:
    values = [True, 1, 1.0, 1 + 0j, "1", b"1", None, (1,), [1], slice(1), -0.0, 0.0, {"a": 1}, ...]
    assert len({text(program(args=(value,))) for value in values}) == len(values)


def of_a_program(x: torch.Tensor) -> torch.Tensor:
    return x


class Held(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(1))


@pytest.mark.parametrize(
    "make",
    [
        lambda: text(program(of_a_program)),
        lambda: text(program(lambda x: x)),
        lambda: text(program(args=(object(),))),
        lambda: text(program(args=(torch.ones(1),))),
        lambda: text(program(args=(of_a_program,))),
        lambda: text(program(checkpoint=object())),
        lambda: described(program(), [torch.ones(2, 3).to_sparse(), 1]).text,
        lambda: described(program(), [torch.ones(2, 3), torch.ones(3)]).text,
        lambda: text(fx.symbolic_trace(torch.nn.Linear(2, 2)), torch.ones(2)),
        lambda: (
            described(program(), [FakeMode(ShapeEnv()).from_tensor(torch.ones(5), policy=DimPolicy.DYNAMIC), 1]).text
        ),
    ],
)
def test_what_is_not_understood_has_no_text(make: Callable[[], str]) -> None:
    with pytest.raises(Undescribable):
        make()


def test_what_a_program_puts_among_torchs_functions_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    before = text(program(F.multi_head_attention_forward))
    monkeypatch.setattr(F, "scaled_dot_product_attention", of_a_program)
    assert text(program(F.multi_head_attention_forward)) != before
    monkeypatch.setattr(F, "scaled_dot_product_attention", Held())
    with pytest.raises(Undescribable, match="which is a Held"):
        text()


PLACES = [
    (F.normalize, torch.linalg, "vector_norm"),
    (F.silu, torch._C._nn, "silu"),
    (torch.einsum, torch._VF, "einsum"),
    (F.multi_head_attention_forward, F, "softmax"),
]


@pytest.mark.parametrize(("called", "space", "name"), PLACES)
def test_functions_of_one_text_that_hold_different_values(
    called: Any, space: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a patched function of torch's does is known only as far as all it holds is."""
    made = getattr(space, name)

    def times(factor: Any) -> Callable[..., Any]:
        return lambda *args, **named: made(*args, **named) * factor

    texts = []
    for factor in (None, 2, 3, 2):
        monkeypatch.setattr(space, name, made if factor is None else times(factor))
        texts.append(text(program(called)))
    assert len({*texts}) == 3 and texts[1] == texts[3]
    monkeypatch.setattr(space, name, times(torch.ones(1)))
    with pytest.raises(Undescribable, match="a Tensor"):
        text(program(called))


def test_methods_of_tensors_reach_functions_too(monkeypatch: pytest.MonkeyPatch) -> None:
    before = text(program("norm", "call_method"))
    monkeypatch.setattr(torch.functional, "norm", of_a_program)
    monkeypatch.setattr(torch, "norm", torch.functional.norm)
    assert text(program("norm", "call_method")) != before


def test_what_is_left_out_of_a_call_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    before = text(program(F.normalize))
    monkeypatch.setattr(F.normalize, "__defaults__", (1.0, 1, 1e-12, None))
    assert text(program(F.normalize)) != before


def test_a_function_wrapped_as_torchs_is_no_function_of_torchs(monkeypatch: pytest.MonkeyPatch) -> None:
    def relu(x: torch.Tensor) -> torch.Tensor:
        return x

    relu.__module__, relu.__qualname__ = F.relu.__module__, F.relu.__qualname__
    monkeypatch.setattr(F, "relu", relu)
    with pytest.raises(Undescribable):
        text(program(relu))


@contextmanager
def library() -> Iterator[torch.library.Library]:
    made = torch.library.Library("aten", "IMPL")
    try:
        yield made
    finally:
        made._destroy()


@pytest.mark.parametrize(
    "made", [library, lambda: torch.library._scoped_library("aten", "IMPL")]
)  # by a file of torch's
def test_nothing_is_told_with_kernels_of_the_programs_for_torchs_operators(made: Callable[[], Any]) -> None:
    """Which function they are the dispatcher does not say."""
    before = text()
    with made() as of_the_program:
        of_the_program.impl("special_erfcx", lambda x: x, "CompositeImplicitAutograd")
        with pytest.raises(Undescribable, match="special_erfcx"):
            text()
    assert text() == before


class Heard(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def test_nothing_is_told_in_a_mode_of_the_programs() -> None:
    module, inputs = program(), fakes(torch.ones(2), torch.ones(3))
    with Heard(), pytest.raises(Undescribable):
        described(module, inputs)


def test_other_rules_and_decompositions(monkeypatch: pytest.MonkeyPatch) -> None:
    op = torch.ops.aten.erfinv.default
    assert op not in TABLE
    decomposition(op)(of_a_program)
    try:
        with pytest.raises(Undescribable):
            text()
    finally:
        del TABLE[op]
    assert text()
    known = RULES[torch.ops.aten.relu.default]
    register_rule(torch.ops.aten.relu.default)(of_a_program)
    try:
        with pytest.raises(Undescribable):
            text()
    finally:
        register_rule(torch.ops.aten.relu.default)(known)
        reset_rules()
    assert text()
