"""Calls of functions that remember (``functools.lru_cache``): in, one with known arguments; out, the object it remembers.

What it remembers is read from its own dictionary, and guarded there. The call itself, which then only counts as a hit,
is made again by the generated code. A first call is made for real, if its body does nothing else; else the graph breaks.
"""

from __future__ import annotations

import bisect
import collections
import functools
import gc
import itertools
import operator
import types
import weakref
from collections.abc import Iterable
from typing import Any

from capture.errors import NotConstant, Unsupported
from capture.guards import Guard, GuardKind
from capture.once import note_once
from capture.sources import Const, DictValueAt, Item, Source
from capture.trace_rules import module_of

from .base import Args, Interpreter, Kwargs, SymbolicRaise, Variable
from .memory_keys import MemoryKeys
from .objects import Object
from .reachable import may_reach

_LINK = "_lru_list_elem"  # what the dictionary of a cache with a limit holds: key and result in a list by last use


def call_remembering(m: Interpreter, function: Any, args: Args, kwargs: Kwargs) -> Variable:
    """The result of a call of an ``lru_cache``; ``Unsupported`` if it would run more than can be done ahead."""
    cache, body, mark = _parts(function)
    if _is_once(body):
        return _warn_once(m, function, args, kwargs)
    keys = MemoryKeys(m)
    real, named = _real(function, keys, args, kwargs)
    if any(m.classes.is_made(type(each)) for each in (*real, *named.values())):
        raise Unsupported(f"call of {_name(function)}, which remembers, with an object of a class that the frame made")
    key = another = _key(function, mark, real, named)
    if keys.some_made:  # before they are hashed, which some note
        another = _key(function, mark, *_real(function, MemoryKeys(m), args, kwargs))
    memory = Const(cache, f"{_name(function)}.cache")
    call = _called_weakly(function, real, named)
    values = [*args, *kwargs.values()]
    if keys.own:
        keys.check_pure(values, _name(function))
    if not m.builder.fold(lambda: key in cache, []):
        if m.state.probing:
            return _probed(m, function, body, key, args, kwargs)
        if m.state.in_arms:
            raise Unsupported(f"first call of {_name(function)}, which remembers, where it may not be made")
        _check_room(function, len(cache) + 1)
        so = Guard(memory, GuardKind.LEN, len(cache)) if keys.own else Guard(memory, GuardKind.NO_KEY, key)
        changed = [m.builder.outside(each) for each in m.effects.changed.values() if each.source is not None]
        changed += m.classes.rewritten
        with m.effects.noting_reads() as reads:
            try:
                _check_effects(m, function, body, args, kwargs, so)
            except Unsupported:
                note_once(body)
                raise
        if (changed or m.globals.written) and _may_reach(
            [function, *reads, *real, *named.values()], [*changed, m.globals.written]
        ):
            # It is made before the frame's changes are, of which it reads some.
            raise Unsupported(
                f"first call of {_name(function)}, which remembers, after something was changed", while_so=(so,)
            )
        if not m.builder.fold(lambda: another in {key}, []):  # what the frame made is equal to nothing else
            raise Unsupported(f"call of {_name(function)}, whose keys are not understood")
        _make_earlier(m)
        m.builder.fold(call, [])
        m.effects.ran_ahead.add((function, key, m.effects.times.get((function, key), 0)))
        if key not in cache:
            raise Unsupported(f"call of {_name(function)}, whose keys are not understood")
    entry: Source = Item(memory, key)
    if keys.own:
        # By what is remembered: a key that was changed since is equal to others, and found under none.
        held = cache[key]
        place, key = next((i, k) for i, (k, v) in enumerate(cache.items()) if v is held and k == key)
        entry = DictValueAt(memory, place)  # a look-up would ask the program's objects
        stored, kept = key[: len(args)], dict(zip(kwargs, key[len(args) + 2 :: 2], strict=False))
        keys.check_found(values, [*stored, *kept.values()], _name(function))
        call = _called_weakly(function, stored, kept)
    found = _read(m, function, memory, key, entry)
    if not m.state.probing and not _is_uncounted(function, body):
        m.effects.activity += 1
        _make_again(m, function, key, call)
    return found


def _real(function: Any, keys: MemoryKeys, args: Args, kwargs: Kwargs) -> tuple[list[Any], dict[str, Any]]:
    """The real arguments; raises ``Unsupported`` where some are not known."""
    try:
        return [keys.real(a) for a in args], {k: keys.real(v) for k, v in kwargs.items()}
    except NotConstant:
        raise Unsupported(f"call of {_name(function)}, which remembers, with a value not known") from None


def _name(function: Any) -> str:
    """How it is called in messages: as what it remembers for, which may be an object without a name."""
    named = vars(function)
    return str(named.get("__qualname__") or f"a cached {type(named.get('__wrapped__')).__qualname__}")


def _may_reach(starts: list[Any], changed: list[Any]) -> bool:
    wanted = set(map(id, changed))
    return may_reach(starts, lambda value: id(value) in wanted)


def _warn_once(m: Interpreter, function: Any, args: Args, kwargs: Kwargs) -> Variable:
    """A cached function that logs on its first call: made now, after which it does nothing."""
    if m.state.in_arms:
        raise Unsupported("logging where it may not be done")
    try:
        real = [
            a.value if isinstance(a, Object) and not a.attrs else m.builder.to_python(a)
            for a in [arg.realize(m) for arg in args]
        ]
        named = {k: m.builder.to_python(v) for k, v in kwargs.items()}
    except NotConstant:
        raise Unsupported("logging of a value that is not constant") from None
    return m.builder.from_python(m.builder.fold(function, real, named))


#: Cached functions with that behaviour.
_ONCE = frozenset({"transformers.utils.logging.warning_once", "transformers.utils.logging.info_once"})


def _is_once(function: Any) -> bool:
    """Whether what is cached is one of them."""
    return (
        isinstance(function, types.FunctionType) and f"{module_of(function)}.{function.__code__.co_qualname}" in _ONCE
    )


def _parts(function: Any) -> tuple[dict[Any, Any], Any, Any]:
    """A cache's dictionary, the function it calls (``__wrapped__`` says what it likes), and its mark of keywords."""
    own, found = vars(function), gc.get_referents(function)
    for at in reversed(range(len(found) - 2)):
        if type(found[at]) is dict and found[at] is not own and type(found[at + 2]) is object:
            return found[at], found[at + 1], found[at + 2]
    raise Unsupported(f"call of {_name(function)}, whose memory is not found")


def _key(function: Any, mark: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """The key as ``_functools`` makes it."""
    parameters = vars(function).get("cache_parameters")
    if parameters is None:
        raise Unsupported(f"call of {_name(function)}, whose keys are not understood")
    typed = parameters()["typed"]
    if len(args) == 1 and not kwargs and not typed and type(args[0]) in (int, str):
        return args[0]
    key = (*args, *((mark, *itertools.chain.from_iterable(kwargs.items())) if kwargs else ()))
    return (*key, *map(type, args), *map(type, kwargs.values())) if typed else key


def _evaluated(m: Interpreter, function: Any, body: Any) -> Variable:
    if not isinstance(body, types.FunctionType):
        raise Unsupported(f"first call of {_name(function)}, which remembers")
    return m.builder.wrap(body, None)


def _probed(m: Interpreter, function: Any, body: Any, key: Any, args: Args, kwargs: Kwargs) -> Variable:
    """A call within a first call: what is called with a key again gives what it gave, or calls would double with each level."""
    probed: dict[Any, Variable] = m.state.probed
    found = m.builder.fold(probed.get, [(function, key)])
    if found is None:
        found = m.calls.call(_evaluated(m, function, body), args, kwargs)
        m.builder.fold(probed.setdefault, [(function, key), found])
    return found


def _check_effects(m: Interpreter, function: Any, body: Any, args: Args, kwargs: Kwargs, so: Guard) -> None:
    """Evaluate the body, to see that a call does nothing but compute. ``so``: nothing is remembered yet, which a break makes otherwise."""
    m.state.probing = True
    effects = m.effects
    before = effects.other_changes
    try:
        with effects.apart() as changed:
            m.calls.call(_evaluated(m, function, body), args, kwargs)
        for within, count in collections.Counter(each for each, _ in m.state.probed).items():
            _check_room(within, len(_parts(within)[0]) + count)
    except SymbolicRaise:
        raise Unsupported(f"first call of {_name(function)}, which raises") from None
    except Unsupported as problem:  # until it was called for real
        raise Unsupported(problem.reason, problem.step, (*problem.while_so, so)) from problem
    finally:
        m.state.probing = False
        m.state.probed.clear()
    if changed() or effects.other_changes != before:
        raise Unsupported(f"first call of {_name(function)}, which remembers and has effects", while_so=(so,))


def _is_uncounted(function: Any, body: Any) -> bool:
    """Whether nothing tells that it was asked again: torch's own without a limit counts that, and no program looks."""
    of_torch = isinstance(body, types.FunctionType) and module_of(body).partition(".")[0] == "torch"
    return of_torch and type(function).cache_info(function).maxsize is None


def _make_again(m: Interpreter, function: Any, key: Any, call: Any) -> None:
    """Have generated code make a call; the first time not, where that one was made ahead."""
    effects = m.effects
    at = effects.times.get((function, key), 0)
    effects.times[function, key] = at + 1
    if (function, key, at) in effects.ran_ahead:
        effects.counted.add((function, key, at))
        effects.remembered.append(_but_once(call))
        return
    if type(function).cache_info(function).maxsize is not None:
        effects.to_come[len(effects.remembered)] = (function, key, at)
    effects.remembered.append(call)


def _make_earlier(m: Interpreter) -> None:
    """Make ahead what comes before a call that is: a memory with a limit drops what was asked for longest ago."""
    effects = m.effects
    for place, made in effects.to_come.items():
        call = effects.remembered[place]
        m.builder.fold(call, [])
        effects.ran_ahead.add(made)
        effects.counted.add(made)
        effects.remembered[place] = _but_once(call)
    effects.to_come.clear()


def _called_weakly(function: Any, args: Iterable[Any], kwargs: dict[str, Any]) -> functools.partial[Any]:
    """What calls a function that remembers, without a frame of Python, and does not hold it: it leads to its module's globals, which may
    hold the very code that makes the call. That it is there is guarded."""
    functions = map(weakref.ref.__call__, itertools.repeat(weakref.ref(function)))
    caller = functools.partial(operator.call, **kwargs) if kwargs else operator.call
    return functools.partial(next, map(caller, functions, *map(itertools.repeat, args)))


def _but_once(call: Any) -> Any:
    """What makes a call, and the first time does not."""
    later = map(functools.partial.__call__, itertools.repeat(call))
    return functools.partial(next, itertools.chain([None], later))


def _read(m: Interpreter, function: Any, memory: Const, key: Any, source: Source) -> Variable:
    """What is remembered; guards that it is still that, where ``source`` reads it."""
    cache: dict[Any, Any] = memory.value
    entry = cache[key]
    m.guards.add(source, GuardKind.ID, entry)
    if type(entry).__name__ != _LINK:
        return m.builder.known(entry)
    limit = _check_room(function, len(cache))
    asked = m.effects.limits.get(id(function))
    if asked is None:
        asked = m.effects.limits[id(function)] = functools.partial(bisect.bisect_left, (cache,), limit, key=len)
    m.guards.add(None, GuardKind.ANSWER, (asked, (), 1))  # len(cache) < limit, without a frame of Python
    return m.builder.known(_result(function, cache, key))


def _check_room(function: Any, size: int) -> Any:
    """Its limit. A full memory uses its links again, for other keys: they do not tell what it remembers."""
    limit = type(function).cache_info(function).maxsize
    if limit is not None and size >= limit:
        raise Unsupported(f"call of {_name(function)}, whose memory is full")
    return limit


def _result(function: Any, cache: dict[Any, Any], key: Any) -> Any:
    """The result in a link, which only its owner shows: (key, result, type of link) for each, in the order of use."""
    found = gc.get_referents(function)
    end = max(i for i, part in enumerate(found) if part is cache)
    link = cache[key]
    stored = next(k for k, held in cache.items() if held is link)
    for at in range(1, end - 2, 3):
        if found[at] is stored and getattr(found[at + 2], "__name__", "") == _LINK:
            return found[at + 1]
    raise Unsupported(f"call of {_name(function)}, whose memory is not understood")
