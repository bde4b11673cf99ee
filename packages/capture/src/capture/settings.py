"""Torch's modes and settings outside of tensors, in one table: how each is read, how written, when it matters.

Guards check them (natively where that can be: ``state_readers``), the evaluator answers the program's questions by them, a
capture puts back what it changed, and the replacement of a frame restates what the frame changed. A device, or another mode, is
one more row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch import fx
from torch.utils._python_dispatch import TorchDispatchMode

from capture import _torch
from capture._native import address
from symshapes import Switch, dataclass, levels_kept

Change = Callable[[], AbstractContextManager[Any]]
Call = tuple[Callable[..., Any], tuple[Any, ...]]


@dataclass(frozen=True)
class Setting:
    """A setting that changes what torch functions do, read by `query(*args)` and written by `setter(*args, value)`.

    `setter` is set where a frame may change it within a graph. `told_by` are other questions whose answers follow from it.
    `native` is the reader's C++ twin, if any: (mangled symbol, argument, bits of the result); a method of at::Context has the
    argument "context". `changes` put other values in force, for the comparison of the two. `only_if` names settings of which
    one must be on, or this one means nothing. `read_by` are the functions of torch that choose kernels by it, as soon as they are
    taken apart: it means something to graphs that call one of these. `read_by_products` is set where whoever multiplies matrices of
    float32 reads it, whatever function calls for that; such a product, or such a function, off the CPU alone where it is `off_cpu`.
    """

    query: Callable[..., Any]
    args: tuple[Any, ...] = ()
    setter: Callable[..., Any] | None = None
    told_by: tuple[Call, ...] = ()
    native: tuple[str, int | str, int] | None = None
    changes: tuple[Change, ...] = ()
    only_if: tuple[str, ...] = ()
    read_by: tuple[Callable[..., Any], ...] = ()
    read_by_products: bool = False
    off_cpu: bool = False
    in_thread_keys: bool = False  # changes with the thread's dispatch keys
    inverse: bool = False  # the native twin of a bool says the opposite
    apart: bool = False  # has a guard of its own

    def read(self) -> Any:
        """The value in force."""
        return self.query(*self.args)

    @property
    def read_by_some(self) -> bool:
        """Whether it means nothing to most graphs."""
        return bool(self.read_by) or self.read_by_products

    def matters(self, values: Mapping[str, Any]) -> bool:
        """Whether it means anything where the settings have these values."""
        return not self.only_if or any(values[name] for name in self.only_if)


def _set(set_: Callable[[Any], Any], read: Callable[[], Any], value: Any) -> Change:
    """Sets a value, and puts back what was read before."""

    @contextmanager
    def changed() -> Iterator[None]:
        before = read()
        set_(value)
        try:
            yield
        finally:
            set_(before)

    return changed


def _nested(*changes: Change) -> Change:
    @contextmanager
    def all_in_force() -> Iterator[None]:
        with ExitStack() as stack:
            for change in changes:
                stack.enter_context(change())
            yield

    return all_in_force


def _setter_of(setter: Callable[..., Any], args: tuple[Any, ...]) -> Callable[[Any], Any]:
    return lambda value: setter(*args, value)


def _changes(
    query: Callable[..., Any], setter: Callable[..., Any], args: tuple[Any, ...], *values: Any
) -> tuple[Change, ...]:
    return tuple(_set(_setter_of(setter, args), partial(query, *args), value) for value in values)


_TWINS = "_ZN2at8autocast"


def _autocast(device: str, number: int, *told_by: Call) -> dict[str, Setting]:
    """The rows of one device; `number` is its c10::DeviceType, part of the stable ABI."""
    on, enabled, dtype = f"autocast on {device}", torch.is_autocast_enabled, torch.get_autocast_dtype
    return {
        on: Setting(
            enabled,
            (device,),
            torch.set_autocast_enabled,
            (*told_by, (_torch.any_autocast, ())),
            native=(f"{_TWINS}19is_autocast_enabledEN3c1010DeviceTypeE", number, 8),
            changes=_changes(enabled, torch.set_autocast_enabled, (device,), True, False),
            in_thread_keys=True,
        ),
        f"autocast dtype on {device}": Setting(
            dtype,
            (device,),
            torch.set_autocast_dtype,
            native=(f"{_TWINS}18get_autocast_dtypeEN3c1010DeviceTypeE", number, 8),
            changes=_changes(dtype, torch.set_autocast_dtype, (device,), torch.float16, torch.bfloat16),
            only_if=(on,),
        ),
    }


def _is_deterministic() -> tuple[bool, bool]:
    return (torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled())


class _FunctionMode(torch.overrides.TorchFunctionMode):
    """Changes nothing but the depth of modes."""


class _DispatchMode(TorchDispatchMode):
    """Changes nothing but the depth of modes."""


def _flags(words: str, flags: Mapping[str, _torch.Flag], read_by: tuple[Callable[..., Any], ...]) -> dict[str, Setting]:
    """A row for each flag."""
    return {
        f"{words} {name}": Setting(
            read,
            native=(f"_ZNK2at7Context{len(twin)}{twin}Ev", "context", 8),
            changes=_changes(read, write, (), True, False),
            read_by=read_by,
        )
        for name, (read, write, twin) in flags.items()
    }


def _with_operators(*functions: Callable[..., Any]) -> tuple[Callable[..., Any], ...]:
    """The functions, and the operators of the same names with all their overloads, which programs may call as well."""
    packets = [getattr(torch.ops.aten, function.__name__) for function in functions]
    return *functions, *packets, *(getattr(packet, name) for packet in packets for name in packet.overloads())


_RECURRENT = _with_operators(torch.lstm, torch.gru, torch.rnn_tanh, torch.rnn_relu)
#: The function of `nn.MultiheadAttention` is one call in a graph.
_ATTENDING = (
    *_with_operators(torch.nn.functional.scaled_dot_product_attention),
    torch.nn.functional.multi_head_attention_forward,
)

# The default dtype and determinism are the process's: changed for the microseconds of the comparison, at import.
_DETERMINISM = _changes(_is_deterministic, _torch.set_deterministic, (), (True, False), (True, True), (False, False))

SETTINGS: dict[str, Setting] = {
    "grad mode": Setting(
        torch.is_grad_enabled,
        setter=_torch.set_grad_enabled,
        native=("_ZN3c108GradMode10is_enabledEv", 0, 8),
        changes=(torch.no_grad, torch.enable_grad),
        apart=True,
    ),
    **_autocast("cpu", 0, (torch.is_autocast_cpu_enabled, ())),
    **_autocast("cuda", 1, (torch.is_autocast_enabled, ())),
    "autocast cache": Setting(
        torch.is_autocast_cache_enabled,
        setter=torch.set_autocast_cache_enabled,
        native=(f"{_TWINS}25is_autocast_cache_enabledEv", 0, 8),
        changes=_changes(torch.is_autocast_cache_enabled, torch.set_autocast_cache_enabled, (), True, False),
        only_if=("autocast on cpu", "autocast on cuda"),
    ),
    "default dtype": Setting(
        torch.get_default_dtype,
        native=("_ZN3c1031get_default_dtype_as_scalartypeEv", 0, 8),
        changes=_changes(
            torch.get_default_dtype, torch.set_default_dtype, (), torch.float64, torch.float32, torch.bfloat16
        ),
    ),
    "inference mode": Setting(
        torch.is_inference_mode_enabled,
        native=("_ZN3c1013InferenceMode10is_enabledEv", 0, 8),
        changes=(torch.inference_mode, lambda: torch.inference_mode(False)),
        in_thread_keys=True,
    ),
    "deterministic algorithms": Setting(
        torch.are_deterministic_algorithms_enabled,
        told_by=((_torch.deterministic_algorithms, ()),),
        native=("_ZNK2at7Context23deterministicAlgorithmsEv", "context", 8),
        changes=_DETERMINISM,
    ),
    "deterministic algorithms only warn": Setting(
        torch.is_deterministic_algorithms_warn_only_enabled,
        native=("_ZNK2at7Context31deterministicAlgorithmsWarnOnlyEv", "context", 8),
        changes=_DETERMINISM,
        only_if=("deterministic algorithms",),
    ),
    "torch-function modes": Setting(
        _torch.torch_function_depth,
        told_by=((_torch.in_function_mode, ()),),
        native=("_ZN2at4impl22PythonTorchFunctionTLS9stack_lenEv", 0, 64),
        changes=(_FunctionMode, _nested(_FunctionMode, _FunctionMode)),
    ),
    # Torch's own reader of the default device makes a tensor to name a device in full.
    "default devices": Setting(
        _torch.default_devices, changes=(lambda: torch.device("meta"),), only_if=("torch-function modes",)
    ),
    "torch functions of subclasses": Setting(
        _torch.torch_function_enabled,
        native=("_ZN2at4impl22PythonTorchFunctionTLS18get_disabled_stateEv", 0, 8),
        changes=_torch.function_switches,
        inverse=True,
    ),
    "dispatch modes": Setting(
        _torch.dispatch_mode_depth,
        native=("_ZN3c104impl20TorchDispatchModeTLS9stack_lenEv", 0, 64),
        changes=(_DispatchMode, _nested(_DispatchMode, _DispatchMode)),
        in_thread_keys=True,
    ),
    **_flags("layers by", _torch.LIBRARY_FLAGS, _RECURRENT),
    **_flags("attention by", _torch.ATTENTION_FLAGS, _ATTENDING),
    "attention in order": Setting(
        _torch.attention_order,
        changes=_changes(_torch.attention_order, _torch.set_attention_order, (), (0, 2, 1, 3, 4)),
        read_by=_ATTENDING,
        off_cpu=True,
    ),
    # Kernels of a compiler's own are made for one, where a library would ask at each call.
    "products of float32": Setting(
        _torch.float32_precision,
        ("cuda", "matmul"),
        changes=_changes(_torch.float32_precision, _torch.set_float32_precision, ("cuda", "matmul"), "tf32", "ieee"),
        read_by_products=True,
        off_cpu=True,
    ),
}

READ_BY: dict[int, tuple[str, ...]] = {
    address(function): tuple(name for name, each in SETTINGS.items() if function in each.read_by)
    for setting in SETTINGS.values()
    for function in setting.read_by
}
"""By the address of a function of torch's, which settings it chooses kernels by."""

READ_BY_PRODUCTS = tuple(name for name, each in SETTINGS.items() if each.read_by_products)


def read_by(function: Callable[..., Any], args: Iterable[Any]) -> tuple[str, ...]:
    """Which settings such a function chooses kernels by for these fake tensors."""
    names = READ_BY[address(function)]
    if any(isinstance(arg, torch.Tensor) and not arg.is_cpu for arg in args):
        return names
    return tuple(name for name in names if not SETTINGS[name].off_cpu)


ANSWERS: dict[Call, str] = {
    call: name
    for name, setting in SETTINGS.items()
    if not setting.read_by_some
    for call in ((setting.query, setting.args), *setting.told_by)
}
"""Questions, with their arguments, and the setting that the answer follows from."""

SETTERS: dict[Call, str] = {
    (setting.setter, setting.args): name for name, setting in SETTINGS.items() if setting.setter is not None
}
"""The setters that a graph may call, with the arguments before the value, and what they set."""
AUTOCAST: tuple[Call, ...] = tuple(
    call for call, name in SETTERS.items() if SETTINGS[name].query is torch.is_autocast_enabled
)
"""The setters, among these, by which autocast is on or off for a device."""

NESTING = "autocast nesting"
"""Beside the settings: how many autocast blocks are open, which torch counts. As the last one is left, the copies go that it keeps of weights."""


def _autocast_nesting() -> int:
    """Torch tells only who changes it."""
    more: int = torch.autocast_increment_nesting()
    torch.autocast_decrement_nesting()
    return more - 1


# ---- what a frame changes ----


def in_force() -> dict[str, Any]:
    """The values of what a graph may change."""
    return {name: SETTINGS[name].read() for name in SETTERS.values()} | {NESTING: _autocast_nesting()}


def calls_between(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Call]:
    """Calls that bring what a graph may change from one state to the other."""
    calls: list[Call] = []
    for (setter, args), name in SETTERS.items():
        if before[name] != after[name]:
            calls.append((setter, (*args, after[name])))
    nesting = after[NESTING] - before[NESTING]
    step = torch.autocast_increment_nesting if nesting > 0 else torch.autocast_decrement_nesting
    calls.extend((step, ()) for _ in range(abs(nesting)))
    return calls


def put_back(before: Mapping[str, Any]) -> None:
    """Set what a graph may change as it was; no mode is told, for which the program does not do it."""
    with _torch.without_functions():
        calls = calls_between(in_force(), before)
        for function, args in calls:
            function(*args)
        if not before[NESTING] and (torch.autocast_decrement_nesting, ()) in calls:
            torch.clear_autocast_cache()


def putting_back(run: Callable[..., Any], graph: fx.Graph) -> Callable[..., Any]:
    """What runs a graph as it is, which may set some of these, or switches: where it raises they are put back, too."""
    calls = [node.target for node in graph.nodes if node.op == "call_function"]
    switches = [target for target in calls if isinstance(target, Switch)]
    if not switches and not {setter for setter, _ in SETTERS}.intersection(calls):
        return run

    def putting_back(*args: Any) -> Any:
        before, backs = in_force(), [switch.back() for switch in switches]
        try:
            return run(*args)
        except BaseException:
            put_back(before)
            for switch in reversed(backs):
                switch()
            raise

    return putting_back


@contextmanager
def restored() -> Iterator[None]:
    """Undo changes made within."""
    before = in_force()
    try:
        with levels_kept():
            yield
    finally:
        put_back(before)
