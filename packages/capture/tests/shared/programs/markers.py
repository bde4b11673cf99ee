# ruff: noqa: TID251
"""What programs say to compilers, scripting and profilers: nothing of it is in the way of a graph."""

from __future__ import annotations

import functools
import os
import typing
from typing import Any

import torch
import torch._dynamo
from torch._dynamo.comptime import comptime

from .registry import program


@program
def asks_whether_it_is_compiled(x: torch.Tensor) -> Any:
    answers = [torch.compiler.is_exporting(), torch.jit.is_scripting(), torch.jit.is_tracing()]
    if torch.compiler.is_compiling() or torch.compiler.is_dynamo_compiling() or torch._dynamo.is_compiling():
        return x * 2, answers
    return x + x, answers


@program
def asks_for_a_graph_end(x: torch.Tensor) -> Any:
    x = x + 1
    torch._dynamo.graph_break()
    return x * 2


@program
def marks_an_address(x: torch.Tensor) -> Any:
    torch._dynamo.mark_static_address(x)
    torch.compiler.cudagraph_mark_step_begin()
    return x + 1


@program
def talks_to_another_compiler(x: torch.Tensor) -> Any:
    comptime.print_graph()
    y = x + 1

    @comptime
    def _(context: Any) -> None:
        raise AssertionError("only while that one compiles")

    comptime(lambda context: None)
    said: list[str] = []
    comptime(lambda context: None, lambda: said.append("nobody compiles"))
    return y, said


@program
def sets_another_compiler_for_a_block(x: torch.Tensor) -> Any:
    with torch._dynamo.error_on_graph_break(False):
        x = x + 1
    with torch._dynamo.patch_dynamo_config():
        x = x * 2
    return x


@torch._dynamo.error_on_graph_break(True)
def _set_for_a_function(x: torch.Tensor) -> torch.Tensor:
    return x.sin()


@program
def calls_what_is_set_for_another_compiler(x: torch.Tensor) -> Any:
    return _set_for_a_function(x) + 1


@torch.compile(backend="eager")
def _compiled_by_torch(x: torch.Tensor, k: int = 2) -> torch.Tensor:
    return x * k


_module_compiled_by_torch = torch.compile(torch.nn.Softmax(dim=0), backend="eager")
_in_place = torch.nn.Softmax(dim=1)
_in_place.compile(backend="eager")


@program
def calls_what_another_compiler_compiled(x: torch.Tensor) -> Any:
    return _compiled_by_torch(x + 1, k=3) * 2, _module_compiled_by_torch(x), _in_place(x)


@program
def attributes_of_what_another_compiler_compiled(x: torch.Tensor) -> Any:
    return x * _module_compiled_by_torch.dim, _in_place.dim


@torch._dynamo.nonstrict_trace
def _traced_loosely(x: torch.Tensor) -> torch.Tensor:
    return x.relu()


@torch.compiler.allow_in_graph
def _allowed(x: torch.Tensor, k: float) -> torch.Tensor:
    return x * k


@program
def calls_what_is_to_be_traced(x: torch.Tensor) -> Any:
    return _traced_loosely(x - 3) + _allowed(x, 0.5)


@torch.compiler.assume_constant_result
def _read_from_somewhere() -> int:
    return 7 + len(os.listdir()) * 0


@program
def a_result_assumed_constant(x: torch.Tensor) -> Any:
    return x * _read_from_somewhere()


@torch.jit.ignore
def _ignored(x: torch.Tensor) -> torch.Tensor:
    return x + 1


@torch.jit.unused
def _unused(x: torch.Tensor) -> torch.Tensor:
    return x + 2


@torch.jit.export
def _exported(x: torch.Tensor) -> torch.Tensor:
    return x + 3


@program
def functions_marked_for_scripts(x: torch.Tensor) -> Any:
    return _ignored(x) * _unused(x) * _exported(x)


@program
def annotated_for_scripts(x: torch.Tensor) -> Any:
    found = torch.jit.annotate(list[int], [])
    found.append(3)
    y = torch.jit.annotate(torch.Tensor, x)
    return y + found[0]


@program
def classes_as_scripts_have_them(x: torch.Tensor) -> Any:
    numbers, mixed = [1, 2], [1, "a"]
    return [
        torch.jit.isinstance(numbers, typing.List[int]),  # noqa: UP006  (what it takes)
        torch.jit.isinstance(mixed, typing.List[int]),  # noqa: UP006
        torch.jit.isinstance(x, torch.Tensor),
    ], x + 1


@torch.jit.script
def _scripted(x: torch.Tensor, k: int = 2) -> torch.Tensor:
    if k > 1:
        x = x + 1
    return x * k


@torch.jit.script_if_tracing
def _scripted_if_tracing(x: torch.Tensor) -> torch.Tensor:
    return x * 2 + 1


@program
def calls_scripts(x: torch.Tensor) -> Any:
    return _scripted(x), _scripted(x, 1), _scripted(x, k=3), _scripted_if_tracing(x)


@program
def ranges_of_the_profiler(x: torch.Tensor) -> Any:
    with torch.profiler.record_function("outer"):
        x = x + 1
        with torch.autograd.profiler.record_function("inner", "some arguments"):
            x = x * 2
    with torch.autograd.profiler.profile(enabled=False):
        x = x - 1
    with torch.autograd.profiler.emit_nvtx(enabled=False), torch.autograd.profiler.emit_itt(enabled=False):
        return x.sin()


@torch.profiler.record_function("decorated")
def _in_a_range(x: torch.Tensor) -> torch.Tensor:
    return x + 1


@program
def a_function_in_a_range(x: torch.Tensor) -> Any:
    return _in_a_range(x) * 2, _in_a_range.__name__


@program
def a_range_that_an_exception_leaves(x: torch.Tensor) -> Any:
    try:
        with torch.profiler.record_function("left"):
            raise ValueError("out of it")
    except ValueError as error:
        return x + 1, str(error)


@program
def ranges_of_another_vendor(x: torch.Tensor) -> Any:
    torch.profiler.itt.range_push("pushed") if torch.profiler.itt.is_available() else None
    y = x + 1
    torch.profiler.itt.range_pop() if torch.profiler.itt.is_available() else None
    return y


@program
def checks_that_hold(x: torch.Tensor) -> Any:
    torch._check(x.shape[0] == 3)
    torch._check(x.dim() == 2, lambda: "no matrix")
    torch._check_value(x.shape[1] == 4)
    torch._check_index(True)
    torch._check_type(isinstance(x, torch.Tensor))
    torch._check_not_implemented(True)
    torch._check_with(ValueError, x.numel() == 12, lambda: "not twelve")
    torch._check_is_size(x.shape[0])
    return x + 1


@program
def checks_that_do_not_hold(x: torch.Tensor) -> Any:
    found: list[Any] = []
    for check, condition in (
        (torch._check, False),
        (torch._check_value, x.shape[0] == 4),
        (torch._check_index, x.dim() == 1),
        (functools.partial(torch._check_with, TypeError), False),
    ):
        try:
            check(condition, lambda: f"got {x.shape[0]}")
        except Exception as error:
            found.append((type(error), str(error)))
    return x + 1, found


@program
def hooks_registered_for_one_call(x: torch.Tensor) -> Any:
    layer = _HOOKED
    seen: list[torch.Tensor] = []
    handle = layer.register_forward_hook(lambda module, args, result: result + 1)
    first = layer.register_forward_pre_hook(lambda module, args: (args[0] * 2,), prepend=True)
    with layer.register_forward_hook(lambda module, args, named, result: seen.append(result), with_kwargs=True):
        y = layer(x)
    handle.remove()
    first.remove()
    handle.remove()
    return y, layer(x), seen, len(layer._forward_hooks), len(layer._forward_pre_hooks)


_HOOKED = torch.nn.Softmax(dim=1)
