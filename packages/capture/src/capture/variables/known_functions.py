"""Functions written in Python that are understood as a whole instead of being inlined."""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import inspect
import logging
import pickle
import posixpath
import re
import sys
import textwrap
import types
import typing
from typing import Any

import torch

from capture import _native, _torch
from capture.errors import NotConstant, Unsupported

from . import modules
from .base import Args, Interpreter, Kwargs, SymbolicRaise, Variable
from .caches import Cached
from .constants import Constant, Known
from .functions import Function, Method, make_function
from .handlers import Fold, folds, handles, handles_wrapper, label
from .instances import Instance
from .lookups import MISSING, check_as_found, class_lookup, has_entry, shown_type
from .made_annotations import annotations_of, have_annotations
from .mappings import Dict
from .objects import Object
from .partials import Partial
from .tensors import Tensor

# Text and patterns in; out what cannot be changed, and depends on nothing else. That it is remembered meanwhile is not seen.
folds(
    re.match, re.fullmatch, re.search, re.compile, posixpath.join, textwrap.dedent, textwrap.wrap, textwrap.fill, textwrap.shorten,
    "packaging.version.parse",
    "torch.torch_version.TorchVersion._cmp_wrapper",
)  # fmt: skip
# Annotations themselves in, which cannot be changed.
folds(typing.get_origin, typing.get_args)
# A name has one logger as long as the process lives.
folds(logging.getLogger)
# What is installed, and which devices there are, does not change while a process runs what it has compiled for them.
folds(
    importlib.util.find_spec, "torch.cuda.is_available", "torch.cuda.device_count", "torch.cuda.is_bf16_supported",
    "torch.cuda.get_device_capability", "torch.mps.is_available", "torch.xpu.is_available", "torch.distributed.is_available",
    "torch.accelerator.current_accelerator", "torch.accelerator.is_available",
)  # fmt: skip

_PICKLED = Fold(pickle.dumps)


@handles(pickle.dumps)
def _pickle(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    """The bytes of plain values, with which memories tell calls apart.

    What is there twice is written once where it is one object, which is not known: such a call is made for real.
    """
    named = dict(zip(("obj", "protocol"), args, strict=False)) | kwargs
    given = named.pop("obj", Constant(None)).realize(m)
    given.settle(m, set())
    try:
        value: Any = (
            {m.builder.to_python(k): m.builder.to_python(v) for k, v in given.whole(m).values()}
            if isinstance(given, Dict) and given.cls is dict
            else m.builder.to_python(given)
        )
    except NotConstant:
        raise Unsupported("pickle.dumps of what is not known") from None
    parts = [*value, *value.values()] if type(value) is dict else value if type(value) in (list, tuple) else [value]
    texts = [part for part in parts if type(part) in (str, bytes)]
    if any(type(part) not in _PLAIN for part in parts) or len(set(texts)) < len(texts):
        raise Unsupported("pickle.dumps of more than a few plain values")
    return _PICKLED(m, [Known(value)], named)


_PLAIN = (str, bytes, bool, int, float, type(None))

_SUBSTITUTED = Fold(re.sub)


@handles(re.sub)
def _sub(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    """By text; what else it is given it calls, which is the program's."""
    by = args[1] if len(args) > 1 else kwargs.get("repl")
    if by is not None and not issubclass(by.realize(m).python_type(), (str, bytes)):
        named = dict(zip(("pattern", "repl", "string", "count", "flags"), args, strict=False)) | kwargs
        compiled = [named.pop(name) for name in ("pattern", "flags") if name in named]
        pattern = m.builder.from_python(m.builder.fold(re.compile, [m.builder.to_python(a) for a in compiled]))
        return pattern.method(m, "sub", [], named)
    return _SUBSTITUTED(m, args, kwargs)


handles(torch.nn.Module.__getattr__)(modules.module_getattr)
handles(torch.nn.Module.__setattr__)(modules.module_setattr)
handles("torch.nn.modules.module.Module._wrapped_call_impl")(modules.module_call)


@handles(
    "torch.compiler.is_compiling",
    "torch.compiler.is_dynamo_compiling",
    "torch._utils.is_compiling",
    "torch._dynamo.external_utils.is_compiling",
)
def asked_compiling(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    """A captured program may ask whether a compiler traces it: one does, unless that makes it fail.

    Torch's optimizers then compute in ways that are less exact than eager's (what is a double there is a float), and check less: they are told no.
    So are its function transforms, which then give functions the names of those that they transform.
    """
    if f"{m.state.frame.globals.get('__name__')}.".startswith(("torch.optim.", "torch._functorch.")):
        return Constant(False)
    m.state.asked_compiling = True
    return Constant(m.state.says_compiling)


@handles(
    "torch.compiler.is_exporting",
    "torch.jit._script.is_scripting",
    "torch._jit_internal.is_scripting",
    "torch.jit.is_scripting",
    "torch.jit._trace.is_tracing",
    "torch.jit.is_tracing",
    "torch._jit_internal.is_tracing",
    "torch.onnx.is_in_onnx_export",
    "torch.onnx.utils.is_in_onnx_export",
    "torch.onnx._internal.torchscript_exporter.utils.is_in_onnx_export",
    "torch.utils._device._device_constructors",
)
def _never(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    return Constant(False)


@handles(torch.is_tensor)
def _is_tensor(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    return Constant(isinstance(args[0].realize(m), Tensor))


@handles(torch.Tensor.__iter__)
def _iter(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    value = args[0].realize(m)  # whose class may have one of its own, which calls this one
    return value.torch_iterate(m) if isinstance(value, Tensor) else m.iteration.iterate(value)


@handles(torch.Tensor.__len__)
def _len(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    value = args[0].realize(m)
    return value.torch_length(m) if isinstance(value, Tensor) else value.length(m)


@handles(inspect.signature)
def _signature(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    """Of a real function, or of one bound to an object: what the object is does not matter."""
    if kwargs or len(args) > 1:
        raise Unsupported("inspect.signature in ways of the program's own")
    value = args[0].realize(m)
    if isinstance(value, Method) and isinstance(value.function, Function) and value.function.real is not None:
        _note_signature(m, value.function)
        bound = types.MethodType(value.function.real, object())
        return m.builder.computed(m.builder.fold(inspect.signature, [bound]))
    if isinstance(value, Function):
        if value.real is None:
            return _signature_of_made(m, value)
        _note_signature(m, value)
    if m.builder.is_constant(value):
        return m.builder.computed(m.builder.fold(inspect.signature, [m.builder.to_python(value)]))
    if isinstance(value, Object) and value.source is not None:
        return _signature(m, [_plain_call(m, value)], {})
    raise Unsupported(f"signature of {value!r}")


def _note_signature(m: Interpreter, function: Function) -> None:
    real: Any = function.real
    while isinstance(real, types.FunctionType):
        check_as_found(m, real.__dict__, real.__kwdefaults__, _native.annotations_held(real))
        have_annotations(m, real)
        real = real.__dict__.get("__wrapped__")
    m.guards.note_signature(function)


def _signature_of_made(m: Interpreter, value: Function) -> Variable:
    """Of a function made in the frame, whose defaults and annotations must be known."""
    if "__wrapped__" in value.attrs:
        return _signature(m, [value.attrs["__wrapped__"]], {})
    if "__signature__" in value.attrs or "__text_signature__" in value.attrs:
        raise Unsupported("a signature that the program gave to a function")
    if "__annotations__" in value.described:
        raise Unsupported("the signature of a function with other annotations than it was made with")
    try:
        stand_in = make_function(
            value.code,
            value.globals,
            tuple(m.builder.to_python(each) for each in value.defaults),
            {name: m.builder.to_python(each) for name, each in value.kwdefaults.items()},
            (types.CellType(),) * len(value.closure),
            {},
            {},
            None if value.annotate is None else m.builder.to_python(value.annotate),
            None if value.annotations is None else m.builder.to_python(value.annotations),
        )
    except NotConstant:
        raise Unsupported("signature of a function whose defaults are not constant") from None
    return m.builder.computed(m.builder.fold(inspect.signature, [stand_in]))


def _of_function(function: Any) -> None:
    fold = Fold(function)

    @handles(function)
    def read(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
        """It reads parts of a function, and of those that it wraps."""
        value = args[0].realize(m) if args else None
        if any(isinstance(a.realize(m), (Function, Method)) for a in (*args[1:], *kwargs.values())):
            raise Unsupported(f"{label(function)} with a function to call")
        if isinstance(value, Method):
            value = value.function
        if isinstance(value, Function) and value.real is not None:
            _note_signature(m, value)
        elif isinstance(value, Known) and isinstance(value.value, type):
            _note_annotations(m, value.value)
        elif isinstance(value, Known):
            raise Unsupported(f"{label(function)} of {value!r}")
        if function is typing.get_type_hints:
            _note_texts(m, value, in_own_way=len(args) > 1 or bool(kwargs.keys() - {"include_extras"}))
        return fold(m, args, kwargs)


for _reader in (inspect.getfullargspec, inspect.unwrap, typing.get_type_hints):
    _of_function(_reader)


def _note_texts(m: Interpreter, value: Variable | None, in_own_way: bool) -> None:
    """Annotations that are texts mean what the names in them do, where the function or the class was written: these stay what they are."""
    if isinstance(value, Function) and value.real is not None:
        origin: Any = value.real
        while "__wrapped__" in getattr(origin, "__dict__", ()):
            origin = origin.__wrapped__
        places: list[tuple[Any, dict[str, Any], Any]] = [(value.real, getattr(origin, "__globals__", {}), ())]
    elif isinstance(value, Known):
        places = [(base, vars(sys.modules.get(base.__module__, types)), vars(base)) for base in value.value.__mro__]
    else:
        return
    for holder, namespace, hidden in places:
        for annotation in inspect.get_annotations(holder).values():
            meant = annotation
            if isinstance(annotation, str):
                meant = None if in_own_way else _meaning(m, annotation, namespace, hidden)
                if meant is None:
                    raise Unsupported("an annotation that is a text")
            if _holds_text(meant):
                raise Unsupported("an annotation that holds a text")


def _meaning(m: Interpreter, text: str, namespace: dict[str, Any], hidden: Any) -> Any:
    """What an annotation that is a text means, if that is the same for the program as it is now; its names are read as the program reads them."""
    try:
        code = compile(text, "<annotation>", "eval")
        if any(name in hidden for name in code.co_names):
            return None
        # By the evaluator first: what it does not follow, or what does something, breaks the graph before it is done for real.
        before = _left_behind(m)
        found = m.calls.call(m.builder.computed(types.FunctionType(code, namespace)), [], {})
        if _left_behind(m) != before:
            return None
        meant = eval(code, namespace)
        return meant if m.builder.to_python(found) == meant else None
    except (SyntaxError, NameError, AttributeError, TypeError, NotConstant, SymbolicRaise):
        return None


def _left_behind(m: Interpreter) -> tuple[int, ...]:
    """Counts all that the program did and that is seen afterwards."""
    effects = m.effects
    return effects.changes, len(effects.remembered), len(effects.announced), len(effects.counted)


def _holds_text(annotation: Any) -> bool:
    parts = getattr(annotation, "__args__", None) or ()
    return isinstance(annotation, (str, typing.ForwardRef)) or (
        isinstance(parts, tuple)
        and typing.get_origin(annotation) is not typing.Literal
        and any(map(_holds_text, parts))
    )


def _note_annotations(m: Interpreter, cls: type) -> None:
    """The annotations of a class and its bases stay what they are."""
    for base in cls.__mro__:
        have_annotations(m, base)
        own = annotations_of(base)
        if own is not None:
            check_as_found(m, own)
            found = m.builder.known(base).realize(m).attribute(m, "__annotations__").realize(m)
            for _, value in found.whole(m).values() if isinstance(found, Dict) else ():
                value.realize(m)


def _plain_call(m: Interpreter, value: Object) -> Variable:
    """What calling an object calls, where nothing else says what its signature is."""
    for name in ("__signature__", "__wrapped__", "__partialmethod__", "_partialmethod", "__text_signature__"):
        if value.instance_attribute(m, name) is not None or class_lookup(m, value.cls, name)[0] is not MISSING:
            raise Unsupported(f"signature of an object with a {name}")
        m.guards.not_shadowed(value, name)
    for name in ("__getattr__", "__getattribute__"):
        raw, owner = class_lookup(m, value.cls, name)
        if raw is not MISSING and owner not in (object, torch.nn.Module):
            raise Unsupported("signature of an object whose attributes are looked up by code of its own")
    call = value.special(m, "__call__")
    if not isinstance(call, Method):
        raise Unsupported(f"signature of {value!r}")
    return call


@handles(typing.cast)
def _cast(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    return args[1]


@handles(dataclasses.fields)
def _fields(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    """What a class holds of its fields, gone through without a generator's frame: instances ask whenever something is set, some of them."""
    found = _fields_of(m, args[0].realize(m)) if len(args) == 1 and not kwargs else None
    if found is None:
        return m.calls.inline(m.builder.known(dataclasses.fields), args, kwargs)
    return m.builder.new_tuple(found)


def _fields_of(m: Interpreter, value: Variable) -> list[Variable] | None:
    """The fields of an instance that is read plainly; None for anything else, and where what is read may have to be known again."""
    if not isinstance(value, Object) or m.effects.later.concerned:
        return None
    names = vars(dataclasses)
    place = m.globals.read(names, "_FIELDS").realize(m)
    if not isinstance(place, Constant) or type(place.value) is not str:
        return None
    if type(class_lookup(m, value.cls, place.value)[0]) is not dict:
        return None
    if not isinstance(class_lookup(m, value.cls, "__getattribute__")[0], types.WrapperDescriptorType):
        return None
    table = value.attribute(m, place.value).realize(m)
    if not isinstance(table, Dict):
        return None
    wanted = m.globals.read(names, "_FIELD").realize(m)
    known = table.known_fields
    if known is not None and known[0] is wanted and m.effects.reads is None:
        found, looked_at = known[1:]
        if not any(map(m.effects.has_changed, looked_at)):
            return list(found)
    fields = [f.realize(m) for f in m.iteration.elements(table.method(m, "values", [], {}))]
    chosen = [f for f in fields if m.operators.is_(f.attribute(m, "_field_type"), wanted)]
    table.known_fields = wanted, tuple(chosen), (table, *fields)
    return chosen


@handles(_torch.name_in_list)
def _name_in_list(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    """The name of a module by its place in a list, whose length is asked once."""
    if len(args) == 2 and not kwargs:
        owner, index = args[0].realize(m), args[1].realize(m)
        plain = isinstance(owner, modules.Module) and isinstance(index, Constant) and type(index.value) is int
        if plain and class_lookup(m, owner.python_type(), "__len__")[0] is torch.nn.ModuleList.__len__:
            length, at = m.builder.to_python(owner.length(m)), m.builder.to_python(index)
            if -length <= at < length:
                return m.builder.from_python(m.builder.fold(str, [at + length if at < 0 else at]))
    return m.calls.inline(m.builder.known(_torch.name_in_list), args, kwargs)


@handles(functools.update_wrapper)
def _update_wrapper(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    """Copies names and documentation, annotations, and what is in the dictionary."""
    wrapper = (args[0] if args else kwargs["wrapper"]).realize(m)
    wrapped = (args[1] if len(args) > 1 else kwargs["wrapped"]).realize(m)
    if isinstance(wrapper, Instance):  # whose attributes are what it says
        return m.calls.inline(m.builder.known(functools.update_wrapper), args, kwargs)
    if len(args) > 2 or kwargs.keys() - {"wrapper", "wrapped"}:
        raise Unsupported("functools.update_wrapper with a choice of what it copies")
    if isinstance(wrapper, Cached):
        for name in ("__name__", "__qualname__", "__module__", "__doc__"):
            wrapper.attrs[name] = wrapped.attribute(m, name)
        wrapper.attrs["__wrapped__"] = wrapped
        return wrapper
    if not isinstance(wrapper, Function) or wrapper.real is not None:
        raise Unsupported("functools.update_wrapper of a function from outside the frame")
    for name in ("__name__", "__qualname__", "__module__", "__doc__"):
        try:
            wrapper.describe(m, name, wrapped.attribute(m, name).realize(m))
        except SymbolicRaise as raised:  # modules and partial applications have no name
            if raised.exception.python_type() is not AttributeError:
                raise
    copied = wrapped.function.realize(m) if isinstance(wrapped, Method) else wrapped
    if isinstance(copied, Function):
        if "__annotate__" in functools.WRAPPER_ASSIGNMENTS:  # from 3.14
            wrapper.annotate, wrapper.annotations = copied.attribute(m, "__annotate__").realize(m), None
        else:
            wrapper.annotations = copied.attribute(m, "__annotations__").realize(m)
        for key, value in m.iteration.pairs(copied.attribute(m, "__dict__")):
            wrapper.attrs[m.builder.to_python(key)] = value
    elif has_entry(copied.python_type(), "__dict__") and not (
        isinstance(copied, Partial) and not copied.own and not copied.attrs
    ):
        # `torch.func` takes entries from what wraps a module: what that has of the module's is not told.
        if wrapper.attrs and not isinstance(copied, modules.Module):
            raise Unsupported(f"functools.update_wrapper of what is in a {shown_type(copied.python_type())}")
        wrapper.unseen = not isinstance(copied, modules.Module)
    wrapper.attrs["__wrapped__"] = wrapped
    return wrapper


@handles(functools.wraps)
def _wraps(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    named = dict(zip(("wrapped", "assigned", "updated"), args, strict=False)) | kwargs
    return m.effects.created(Partial(m.builder.known(functools.update_wrapper), [], named))


def _recursive(place: str) -> None:
    @handles_wrapper(place, "user_function")
    def call(m: Interpreter, wrapped: Variable, args: Args, kwargs: Kwargs) -> Variable:
        """The text of an object that does not contain itself; one that does never comes to an end here, which is refused."""
        return m.calls.call(wrapped, args, kwargs)


_recursive("dataclasses._recursive_repr.<locals>.wrapper")
_recursive("reprlib.recursive_repr.<locals>.decorating_function.<locals>.wrapper")
