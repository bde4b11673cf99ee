"""Bad input names what is valid; the forms of `compile` (call, decorator, decorator with arguments) are one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch

import capture
import meta


@pytest.fixture(autouse=True)
def _strict() -> Iterator[None]:
    before = capture.config.on_error
    capture.config.on_error = "raise"
    meta.reset()
    yield
    capture.config.on_error = before


def double(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def test_unknown_backend_names_the_valid_ones() -> None:
    with pytest.raises(ValueError, match="unknown backend 'nope'; the backends are inductor, aot_eager, eager"):
        meta.compile(double, backend="nope")


def test_unknown_mode_names_the_valid_ones() -> None:
    with pytest.raises(ValueError, match="unknown mode 'fastest'; the modes are default"):
        meta.compile(double, mode="fastest")


def test_unknown_option_names_the_valid_ones() -> None:
    with pytest.raises(ValueError, match="unknown option 'no_such'; the options are "):
        meta.compile(double, options={"no_such": 1})


def test_options_need_a_backend_that_has_some() -> None:
    with pytest.raises(ValueError, match="backend 'eager' takes no options"):
        meta.compile(double, backend="eager", options={})


@pytest.mark.parametrize("value", [3, "double", [double], torch.ones(2)])
def test_a_non_callable_is_a_type_error(value: Any) -> None:
    with pytest.raises(TypeError, match=f"takes a function or a module, not {type(value).__name__}"):
        meta.compile(value)


def test_a_backend_is_a_name_or_a_callable() -> None:
    with pytest.raises(TypeError, match="backend must be a name or a callable, not int"):
        meta.compile(double, backend=3)  # type: ignore[arg-type]


def test_the_forms_of_compile() -> None:
    x = torch.randn(5)

    @meta.compile
    def plain(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @meta.compile(backend="eager", fullgraph=True)
    def configured(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    for form in (plain, configured, meta.compile(double), meta.compile()(double)):
        torch.testing.assert_close(form(x), x * 2)


@pytest.mark.parametrize("backend", list(meta.backends.BACKENDS))
def test_every_backend_in_inference_and_training(backend: str) -> None:
    def fn(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.relu(x @ w).sum(dim=0)

    compiled = meta.compile(fn, backend=backend)
    x = torch.randn(4, 6)
    w = torch.randn(6, 3, requires_grad=True)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x, w), fn(x, w))
    found, expected = (torch.autograd.grad(f(x, w).pow(2).sum(), w)[0] for f in (compiled, fn))
    torch.testing.assert_close(found, expected)


def test_a_custom_backend_gets_the_graph_and_example_inputs() -> None:
    seen: list[tuple[torch.fx.GraphModule, Sequence[torch.Tensor]]] = []

    def backend(graph: torch.fx.GraphModule, inputs: Sequence[torch.Tensor]) -> Callable[..., Any]:
        seen.append((graph, inputs))
        return graph.forward

    x = torch.randn(3, 2)
    torch.testing.assert_close(meta.compile(double, backend=backend)(x), x * 2)
    ((graph, inputs),) = seen
    assert [node.op for node in graph.graph.nodes] == ["placeholder", "call_function", "output"]
    assert [tuple(t.shape) for t in inputs] == [(3, 2)]


def test_a_custom_backend_is_given_its_options() -> None:
    seen: list[Any] = []

    def backend(graph: torch.fx.GraphModule, inputs: Any, *, options: dict[str, Any]) -> Callable[..., Any]:
        seen.append(options)
        return graph.forward

    meta.compile(double, backend=backend, options={"anything": 1})(torch.ones(2))
    assert seen == [{"anything": 1}]


def test_reset_forgets_compiled_code() -> None:
    compiles = 0

    def backend(graph: torch.fx.GraphModule, inputs: Any) -> Callable[..., Any]:
        nonlocal compiles
        compiles += 1
        return graph.forward

    compiled = meta.compile(double, backend=backend)
    x = torch.randn(3)
    compiled(x)
    compiled(x)
    assert compiles == 1
    meta.reset()
    compiled(x)
    assert compiles == 2
