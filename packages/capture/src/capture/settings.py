"""Torch's modes and settings outside of tensors, in one table: how each is read, how written, when it matters.

Guards check them (natively, where torch's C functions agree with the public answers when they are tried at import), the
evaluator answers the program's questions by them, a capture puts back what it changed, and the replacement of a frame restates
what the frame changed. A device, or another mode, is one more row.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import partial
from typing import Any

import torch
from torch import fx
from torch.utils._python_dispatch import TorchDispatchMode

from capture import _native, _torch, tensor_readers
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
    taken apart: it means something to graphs that call one of these.
    """

    query: Callable[..., Any]
    args: tuple[Any, ...] = ()
    setter: Callable[..., Any] | None = None
    told_by: tuple[Call, ...] = ()
    native: tuple[str, int | str, int] | None = None
    changes: tuple[Change, ...] = ()
    only_if: tuple[str, ...] = ()
    read_by: tuple[Callable[..., Any], ...] = ()
    in_thread_keys: bool = False  # changes with the thread's dispatch keys
    inverse: bool = False  # the native twin of a bool says the opposite
    apart: bool = False  # has a guard of its own

    def read(self) -> Any:
        """The value in force."""
        return self.query(*self.args)

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


def _flags(
    words: str,
    flags: Mapping[str, tuple[Callable[[], bool], Callable[[bool], None]]],
    twins: Mapping[str, str],
    read_by: tuple[Callable[..., Any], ...],
) -> dict[str, Setting]:
    """A row for each flag, by what of at::Context reads it."""
    return {
        f"{words} {name}": Setting(
            read,
            native=(f"_ZNK2at7Context{len(twins[name])}{twins[name]}Ev", "context", 8),
            changes=_changes(read, write, (), True, False),
            read_by=read_by,
        )
        for name, (read, write) in flags.items()
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
_ATTENTION = {
    "flash": "userEnabledFlashSDP",
    "memory efficient": "userEnabledMemEfficientSDP",
    "math": "userEnabledMathSDP",
    "cuDNN": "userEnabledCuDNNSDP",
    "overrideable": "userEnabledOverrideableSDP",
}

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
    **_flags(
        "layers by",
        _torch.LIBRARY_FLAGS,
        {"cuDNN": "userEnabledCuDNN", "oneDNN": "userEnabledMkldnn"},
        _RECURRENT,
    ),
    **_flags("attention by", _torch.ATTENTION_FLAGS, _ATTENTION, _ATTENDING),
}

READ_BY: dict[int, tuple[str, ...]] = {
    id(function): tuple(name for name, each in SETTINGS.items() if function in each.read_by)
    for setting in SETTINGS.values()
    for function in setting.read_by
}
"""By the address of a function of torch's, which settings it chooses kernels by."""

ANSWERS: dict[Call, str] = {
    call: name
    for name, setting in SETTINGS.items()
    if not setting.read_by
    for call in ((setting.query, setting.args), *setting.told_by)
}
"""Questions, with their arguments, and the setting that the answer follows from."""

SETTERS: dict[Call, str] = {
    (setting.setter, setting.args): name for name, setting in SETTINGS.items() if setting.setter is not None
}
"""The setters that a graph may call, with the arguments before the value, and what they set."""

NESTING = "autocast nesting"
"""Beside the settings: how many autocast blocks are open, which torch counts and tells to nobody."""


# ---- what a frame changes ----


def in_force() -> dict[str, Any]:
    """The values of what a graph may change."""
    return {name: SETTINGS[name].read() for name in SETTERS.values()} | {NESTING: 0}


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
        for function, args in calls_between(in_force(), before):
            function(*args)


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


# ---- native reading ----

_GLOBAL_CONTEXT = "_ZN2at13globalContextEv"
# Included and excluded dispatch keys of a thread: autocast, inference mode, dispatch modes and function transforms
# all show in these two words, whose load costs less than one call.
_THREAD_KEYS = "_ZN3c104impl26raw_local_dispatch_key_setE"
_THREAD_KEY_WORDS = ("included dispatch keys", "excluded dispatch keys")

# What `_native.read_state` reads, by its place there; the settings that are missing are read by Python.
native_settings: dict[str, int] = {}
# Whether guards on the grad mode are checked natively.
native_grad_mode = False


def _observed(setting: Setting, observe: Callable[[], Any]) -> list[tuple[Any, Any]]:
    """(What is observed, the public answer) as it is, with each change in force, and after."""
    pairs = [(observe(), setting.read())]
    for change in setting.changes:
        with change():
            pairs.append((observe(), setting.read()))
    return [*pairs, (observe(), setting.read())]


def _setting_problem(setting: Setting, read: Callable[[], int]) -> str:
    """Why the native twin can't be trusted; "" if it says the same as the public reader.

    It may tell more apart than that does (there are two ways to switch torch functions off), never less.
    """
    pairs = _observed(setting, read)
    for native, public in pairs:
        said = bool(native) != setting.inverse if isinstance(public, bool) else native
        if isinstance(public, int) and said != public:
            return f"{native} instead of {public}"
        for other, value in pairs:
            if native == other and public != value:
                return f"{native} for both {public} and {value}"
    return "" if pairs[0] == pairs[-1] and len({str(public) for _, public in pairs}) > 1 else "no telling"


#: What of torch's context is looked through for its flags.
_CONTEXT_SIZE = 2048
#: Where flags lie in memory, by the names of their settings.
_flags_at: dict[str, int] = {}
#: Words in which all flags lie that are always checked together, by names of their own: the settings.
native_words: dict[str, tuple[str, ...]] = {}


def _mapped(start: int) -> int:
    """How many bytes from there on are memory that is there; 0 where that is not told."""
    with suppress(OSError), open("/proc/self/maps") as lines:
        for line in lines:
            first, _, last = line.split(maxsplit=1)[0].partition("-")
            if int(first, 16) <= start < int(last, 16):
                return int(last, 16) - start
    return 0


def _flag_at(setting: Setting, context: int, size: int) -> int | None:
    """Where in the context the one byte lies that is what the public reader says, whatever that is."""
    pairs = _observed(setting, lambda: ctypes.string_at(context, size))
    if {public for _, public in pairs} != {True, False}:
        return None
    found = [at for at in range(size - 7) if all(observed[at] == public for observed, public in pairs)]
    return context + found[0] if len(found) == 1 else None


def _words() -> dict[str, tuple[int, int, int]]:
    """Readers of several flags at once, which mean something to the same graphs and lie side by side."""
    native_words.clear()
    groups: dict[tuple[Any, ...], list[str]] = {}
    for name in _flags_at:
        if SETTINGS[name].read_by:
            groups.setdefault(SETTINGS[name].read_by, []).append(name)
    readers: dict[str, tuple[int, int, int]] = {}
    for names in groups.values():
        names.sort(key=_flags_at.__getitem__)
        first = _flags_at[names[0]]
        if len(names) > 1 and _flags_at[names[-1]] - first < 8:
            word = " and ".join(names)
            native_words[word] = tuple(names)
            readers[word] = (0, first, sum(0xFF << 8 * (_flags_at[name] - first) for name in names))
    return readers


def _reader(twin: tuple[str, int | str, int], context: int | None) -> tuple[int, int, int] | None:
    """The native reader's (address, argument, mask of the result), if it is there."""
    symbol, argument, bits = twin
    address = tensor_readers.address_of(symbol)
    if not address or (argument == "context" and context is None):
        return None
    return address, (context or 0) if argument == "context" else int(argument), (1 << bits) - 1


def _trusted(name: str, setting: Setting, context: int | None, size: int) -> tuple[int, int, int] | None:
    """The reader, if it is there and agrees with the public one; else notes why not. Of the context `size` bytes may be looked at."""
    tensor_readers.native_failures.pop(name, None)
    if setting.native is None:
        return None
    reader = _reader(setting.native, context)
    if reader is None:
        tensor_readers.native_failures[name] = f"no {setting.native[0]}"
        return None
    _native.configure_state((reader,), 0, 0, "")
    if problem := _setting_problem(setting, lambda: _native.read_state()[0]):
        tensor_readers.native_failures[name] = f"{setting.native[0]} says {problem}"
        return None
    if setting.native[1] == "context" and context is not None and size:
        at = _flag_at(setting, context, size)  # to look there takes less than a call
        if at is not None:
            _flags_at[name] = at
            return 0, at, 0xFF
    return reader


def configure_state(native: bool = True) -> None:
    """Let guards read global settings by address where torch has the functions (and `native`)."""
    global native_grad_mode
    find_context = tensor_readers.address_of(_GLOBAL_CONTEXT)
    context = ctypes.CFUNCTYPE(ctypes.c_void_p)(find_context)() if find_context else None
    _flags_at.clear()
    size = min(_mapped(context), _CONTEXT_SIZE) if context is not None and sys.byteorder == "little" else 0
    trusted = {name: _trusted(name, setting, context, size) for name, setting in SETTINGS.items()} if native else {}
    grad = trusted.pop("grad mode", None)  # checked by itself
    readers = {name: reader for name, reader in trusted.items() if reader is not None}
    readers |= _words()
    handle = _thread_keys_library() if native else 0
    if handle:
        readers.update({name: (0, word, (1 << 64) - 1) for word, name in enumerate(_THREAD_KEY_WORDS)})
    _native.configure_state(tuple(readers.values()), grad[0] if grad else 0, handle, _THREAD_KEYS)
    native_settings.clear()
    native_settings.update({name: place for place, name in enumerate(readers)})
    native_grad_mode = grad is not None


def _thread_keys_library() -> int:
    """The handle of the library that has the thread's dispatch keys, or 0; they must follow the settings that they
    stand for to be trusted."""
    for library in tensor_readers.libraries():
        try:
            words = (ctypes.c_uint64 * 2).in_dll(library, _THREAD_KEYS)
        except ValueError:
            continue

        for name, setting in SETTINGS.items():
            pairs = _observed(setting, partial(tuple, words)) if setting.in_thread_keys else []
            if any(keys == others and bool(public) != bool(value) for keys, public in pairs for others, value in pairs):
                tensor_readers.native_failures[_THREAD_KEYS] = f"the dispatch keys do not follow {name}"
                return 0
        return library._handle
    return 0


def relevant_settings(values: dict[str, Any]) -> list[str]:
    """The names of what a guard on these settings must check: natively readable first where one read says it all."""
    follow = any(name in SETTINGS and SETTINGS[name].in_thread_keys for name in values)
    keys = [name for name in _THREAD_KEY_WORDS if follow and name in native_settings]
    words = [word for word, names in native_words.items() if values.keys() >= set(names) and word in native_settings]
    told = {name for word in words for name in native_words[word]}
    return [*keys, *words] + [
        name
        for name in values
        if name in SETTINGS
        and name not in told
        and not (keys and SETTINGS[name].in_thread_keys)
        and SETTINGS[name].matters(values)
    ]


configure_state()
