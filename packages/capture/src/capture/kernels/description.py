"""What a kernel object is made of: the function, and the autotuners and heuristics around it.

In: an object of Triton's. Out: `Kernel`, or `Unsupported` with the reason.
"""

from __future__ import annotations

import sys
import types
from typing import Any

from capture.errors import Unsupported
from capture.labels import place_of
from symshapes import dataclass

_AUTOTUNER = "triton.runtime.autotuner.Autotuner"
_HEURISTICS = "triton.runtime.autotuner.Heuristics"
#: Compiled, and under TRITON_INTERPRET=1.
_FUNCTIONS = frozenset({"triton.runtime.jit.JITFunction", "triton.runtime.interpreter.InterpretedFunction"})
_HOST_FUNCTIONS = frozenset({"triton.runtime.jit.ConstexprFunction"})


def _class_name(cls: type) -> str:
    return ".".join(place_of(cls))


def is_kernel_class(cls: type) -> bool:
    """Whether instances of a class are kernels: Triton's own base class says."""
    interface = getattr(sys.modules.get("triton.runtime.jit"), "KernelInterface", None)
    return interface is not None and issubclass(cls, interface)


def is_host_function_class(cls: type) -> bool:
    """Whether instances wrap a Python function that kernels and programs call alike, as `triton.cdiv` is."""
    return _class_name(cls) in _HOST_FUNCTIONS


def is_jit_function(value: object) -> bool:
    """Whether an object is a function for kernels without anything around it."""
    return _class_name(type(value)) in _FUNCTIONS


@dataclass(frozen=True, eq=False)
class Kernel:
    """A kernel. `outer` is what the program calls; `wrappers` the autotuners and heuristics, from outside to inside."""

    outer: Any
    wrappers: tuple[Any, ...]
    function: types.FunctionType
    jit: Any
    #: Its parameters, and which of them are known when it is compiled.
    names: tuple[str, ...]
    constants: frozenset[str]

    @property
    def configs(self) -> list[list[Any]]:
        """The configurations of each autotuner."""
        return [wrapper.configs for wrapper in self.wrappers if is_autotuner(wrapper)]


def is_autotuner(wrapper: Any) -> bool:
    """Whether a wrapper chooses among configurations; the others are heuristics."""
    return _class_name(type(wrapper)) == _AUTOTUNER


def describe(outer: Any) -> Kernel:
    """The parts of a kernel. Raises ``Unsupported`` for one that does more than choose its parameters."""
    wrappers = []
    inner = outer
    while _class_name(type(inner)) in (_AUTOTUNER, _HEURISTICS):
        if is_autotuner(inner):
            _check_autotuner(inner)
        wrappers.append(inner)
        inner = inner.fn
    if not is_jit_function(inner):
        raise Unsupported(f"a Triton kernel of the class {_class_name(type(inner))}")
    if inner.pre_run_hooks:
        raise Unsupported(f"the Triton kernel {inner.fn.__name__}, which has hooks that run before it")
    if sum(map(is_autotuner, wrappers)) > 1:
        raise Unsupported(f"the Triton kernel {inner.fn.__name__}, which is autotuned twice")
    function = inner.fn
    names = tuple(inner.arg_names)
    constants = frozenset(name for name in names if _is_constexpr(function.__annotations__.get(name)))
    return Kernel(outer, tuple(wrappers), function, inner, names, constants)


def _check_autotuner(tuner: Any) -> None:
    name = getattr(tuner.base_fn, "__name__", "?")
    for what in ("pre_hook", "post_hook"):
        if getattr(tuner, f"user_defined_{what}", True):
            raise Unsupported(f"the Triton kernel {name}, whose autotuner has a {what}")
    if any(config.pre_hook is not None for config in tuner.configs):
        raise Unsupported(f"the Triton kernel {name}, of which a configuration has a pre_hook")


def _is_constexpr(annotation: Any) -> bool:
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    return "constexpr" in text
