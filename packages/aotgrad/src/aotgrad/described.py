"""`described`: a captured program as text, all that compiling it depends on and that a compiler is not told otherwise.

Flows in: an fx graph of torch calls and its fake inputs. Flows out: text that is the same for programs that are compiled alike, or
`Undescribable`: what is not understood to the end has no text. Nothing here takes part in compiling.
"""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import fx
from torch.utils import _pytree as pytree

from aotgrad import _torch
from aotgrad.reached import ROOTS, Reached, Undescribable, comes_along, python_functions, tell_namespaces
from symshapes import SYMBOLIC, FakeTensor, argument_text, rules_changed


class Description(NamedTuple):
    """A program's text, and the types of the devices of its tensors."""

    text: str
    device_types: frozenset[str]


def described(program: fx.GraphModule, inputs: Sequence[Any]) -> Description:
    """A captured program of tensors of fixed sizes, with the modes that it is compiled in.

    Raises:
        Undescribable: a symbolic size, a tensor or module that it holds, a call of what does not come with torch or Python.
    """
    registry = sys.modules.get("aotgrad.decompositions")  # what was not imported nobody has changed
    if rules_changed() or (registry is not None and registry.changed()):
        raise Undescribable("rules or decompositions of somebody else's")
    held = (program._modules, program._parameters, program._buffers)
    if any(held) or any(isinstance(value, torch.Tensor) for value in vars(program).values()):
        raise Undescribable("a graph that holds modules or tensors")
    kernel = next(iter(_torch.kernels_of_others()), None)
    if kernel is not None:
        raise Undescribable(f"a kernel of somebody else's for {kernel[0]}")
    reached = Reached(_constant, function_text)
    tell_namespaces(reached)
    for function in python_functions(node.target for node in program.graph.nodes):
        reached.function(function)
    text = [
        _modes(inputs),
        *reached.lines,
        *(f"{name}={_constant(value)}" for name, value in program.meta.items()),
    ]
    storages: dict[Any, int] = {}
    text += [_input(value, storages) for value in inputs]
    kinds: set[str] = set()
    numbers: dict[fx.Node, int] = {}
    for node in program.graph.nodes:
        values = _values(node.meta.get("val"))
        results = [value for value in values if isinstance(value, torch.Tensor)]
        if any(isinstance(value, SYMBOLIC) for value in values) or not all(map(_is_fixed, results)):
            raise Undescribable("a symbolic size")
        kinds.update(value.device.type for value in results)
        numbers[node] = len(numbers)
        facts = [f"{name}={_constant(fact)}" for name, fact in node.meta.items() if name not in _FOLLOWS]
        arguments = [argument_text(each, numbers, _constant) for each in (node.args, node.kwargs)]
        # Which device is the current one, and so on, is seen in what the calls gave.
        given = [f"{value.dtype} {value.device} {value.requires_grad}" for value in results]
        text.append(f"{node.name} = {node.op} {_target(node)} {' '.join((*arguments, *facts, *given))}")
    return Description("\n".join(text), frozenset(kinds))


def _values(found: Any) -> Sequence[Any]:
    return (found,) if found is None or isinstance(found, torch.Tensor) else pytree.tree_leaves(found)


_FOLLOWS = ("val", "version", "layout", "step", "source")
"""What a node's `meta` says that follows from the graph and its inputs, and the user's line, which only people read."""


def _is_fixed(value: torch.Tensor) -> bool:
    return all(type(number) is int for number in (*value.shape, *value.stride(), value.storage_offset()))


def _modes(inputs: Sequence[Any]) -> str:
    if _torch.in_transform() or _torch.modes_on():
        raise Undescribable("a mode or transform in force")
    said = [f"grad {torch.is_grad_enabled()}", f"inference {torch.is_inference_mode_enabled()}"]
    if _torch.any_autocast():
        accelerator = torch.accelerator.current_accelerator()
        devices = {"cpu", *(value.device.type for value in inputs if isinstance(value, torch.Tensor))}
        devices |= set() if accelerator is None else {accelerator.type}
        said += [
            f"autocast {device} {torch.is_autocast_enabled(device)} {torch.get_autocast_dtype(device)}"
            for device in sorted(devices)
        ]
    return ", ".join(said)


def _input(value: Any, storages: dict[Any, int]) -> str:
    if not isinstance(value, torch.Tensor):
        return _constant(value)
    if type(value) is not FakeTensor or value.layout is not torch.strided or not _is_fixed(value):
        raise Undescribable(f"an input that is a {type(value).__name__} of layout {value.layout} or of symbolic sizes")
    storage = storages.setdefault(value.storage_key, len(storages))
    flags = [value.requires_grad, value.is_leaf, value.is_conj(), value.is_neg(), value.is_inference()]
    place = f"{storage}+{value.storage_offset()}"
    return f"{value.dtype} {value.device} {[*value.shape]} {[*value.stride()]} {place} {flags}"


_PLAIN = (
    *(type(None), bool, int, float, complex, str, bytes, type(Ellipsis)),
    *(torch.dtype, torch.device, torch.layout, torch.memory_format),
)


def _constant(value: Any) -> str:
    if type(value) not in _PLAIN:
        raise Undescribable(f"a {type(value).__qualname__}")
    return value.hex() if type(value) is float else repr(value)


def _target(node: fx.Node) -> str:
    if node.op in ("placeholder", "output"):
        return ""
    target = node.target
    if node.op == "call_method" and isinstance(target, str):
        return target
    if node.op == "call_function" and callable(target):
        return function_text(target)
    raise Undescribable(f"a node that is a {node.op}")


@functools.lru_cache(maxsize=1 << 12)
def function_text(function: Callable[..., Any]) -> str:
    """A name that only this function has, of those that come with torch and Python, whose versions say what it does.

    Raises:
        Undescribable: it comes from elsewhere.
    """
    if isinstance(function, _torch.OpOverload):
        if function.namespace != "aten" or function.py_kernels:
            raise Undescribable(f"the operator {function}, which is not torch's own")
        return str(function)
    name = getattr(function, "__qualname__", None)
    home = getattr(function, "__module__", None) or getattr(getattr(function, "__objclass__", None), "__module__", None)
    if isinstance(function, types.FunctionType):
        owner = sys.modules.get(str(home))
        if comes_along(function) and owner is not None and getattr(owner, str(name), None) is function:
            return f"function {home}.{name}"
    elif isinstance(function, _BUILT_IN) and str(home).partition(".")[0] in ROOTS:
        return f"{type(function).__name__} {home}.{name}"
    raise Undescribable(f"a call of {function}")


_BUILT_IN = (types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType)
