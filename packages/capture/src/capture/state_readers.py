"""How guards read torch's settings natively: by torch's own C functions, or where a flag lies in memory.

In: the table of settings. Out: what ``_native.read_state`` reads, each tried at import against the public answers. What is missing there is
read by Python.
"""

from __future__ import annotations

import ctypes
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from capture import _native, tensor_readers
from capture.settings import SETTINGS, Setting

_GLOBAL_CONTEXT = "_ZN2at13globalContextEv"
# Included and excluded dispatch keys of a thread: autocast, inference mode, dispatch modes and function transforms
# all show in these two words, whose load costs less than one call.
_THREAD_KEYS = "_ZN3c104impl26raw_local_dispatch_key_setE"
_THREAD_KEY_WORDS = ("included dispatch keys", "excluded dispatch keys")

# A native reader as `_native.configure_state` takes it.
_Reader = tuple[int, int, int]

# What `_native.read_state` reads, by its place there; the settings that are missing are read by Python.
native_settings: dict[str, int] = {}
# Of what is read there, words in which several flags lie that are always checked together: the settings.
native_words: dict[str, tuple[str, ...]] = {}
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


#: How much of torch's context is looked through for its flags.
_CONTEXT_SIZE = 2048


def _mapped(start: int) -> int:
    """How many bytes from there on are memory that is there; 0 where that is not told."""
    with suppress(OSError), open("/proc/self/maps") as lines:
        for line in lines:
            first, _, last = line.split(maxsplit=1)[0].partition("-")
            if int(first, 16) <= start < int(last, 16):
                return int(last, 16) - start
    return 0


def _flags_in(context: int | None, names: Iterable[str]) -> dict[str, int]:
    """Where flags lie in torch's context, of those settings that it holds and that are found: to look there takes less than a call."""
    if context is None or sys.byteorder != "little":
        return {}
    size = min(_mapped(context), _CONTEXT_SIZE)
    found = {}
    for name in names:
        native = SETTINGS[name].native
        at = _flag_at(SETTINGS[name], context, size) if native is not None and native[1] == "context" else None
        if at is not None:
            found[name] = at
    return found


def _flag_at(setting: Setting, context: int, size: int) -> int | None:
    """Where in the context the one byte lies that is what the public reader says, whatever that is."""
    pairs = _observed(setting, lambda: ctypes.string_at(context, size))
    if {public for _, public in pairs} != {True, False}:
        return None
    on = next(observed for observed, public in pairs if public)
    places = (each.start() for each in re.finditer(b"\1", on[: max(size - 7, 0)]))  # few bytes are 1
    found = [at for at in places if all(observed[at] == public for observed, public in pairs)]
    return context + found[0] if len(found) == 1 else None


def _side_by_side(flags: Mapping[str, int]) -> Iterator[tuple[str, ...]]:
    """Flags that lie within one word, and mean something to the same graphs."""
    groups: dict[tuple[Any, ...], list[str]] = {}
    for name in sorted(flags, key=flags.__getitem__):
        if SETTINGS[name].read_by:
            groups.setdefault(SETTINGS[name].read_by, []).append(name)
    for names in groups.values():
        if len(names) > 1 and flags[names[-1]] - flags[names[0]] < 8:
            yield tuple(names)


def _word_reader(places: Sequence[int]) -> _Reader:
    """Of the bytes at these places, the first of which comes first."""
    return 0, places[0], sum(0xFF << 8 * (place - places[0]) for place in places)


def _reader(twin: tuple[str, int | str, int], context: int | None) -> _Reader | None:
    """The native reader, if it is there."""
    symbol, argument, bits = twin
    address = tensor_readers.address_of(symbol)
    if not address or (argument == "context" and context is None):
        return None
    return address, (context or 0) if argument == "context" else int(argument), (1 << bits) - 1


def _trusted(name: str, setting: Setting, context: int | None) -> _Reader | None:
    """The reader, if it is there and agrees with the public one; else notes why not."""
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
    return reader


def configure_state(native: bool = True) -> None:
    """Let guards read global settings by address where torch has the functions (and `native`)."""
    global native_grad_mode
    find_context = tensor_readers.address_of(_GLOBAL_CONTEXT)
    context = ctypes.CFUNCTYPE(ctypes.c_void_p)(find_context)() if find_context else None
    trusted = {name: _trusted(name, setting, context) for name, setting in SETTINGS.items()} if native else {}
    grad = trusted.pop("grad mode", None)  # checked by itself
    readers = {name: reader for name, reader in trusted.items() if reader is not None}
    flags = _flags_in(context, readers)
    readers |= {name: _word_reader([at]) for name, at in flags.items()}
    native_words.clear()
    for names in _side_by_side(flags):
        word = " and ".join(names)
        native_words[word] = names
        readers[word] = _word_reader([flags[name] for name in names])
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
    words = [word for word, names in native_words.items() if values.keys() >= set(names)]
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
