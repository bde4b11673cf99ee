"""Tensors: a graph node and a fake that knows dtype, device, sizes and strides. Operations become graph nodes."""

from __future__ import annotations

import operator
import types
from collections.abc import Hashable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import fx

from capture import config
from capture._native import is_held
from capture._torch import is_wrapped
from capture.bytecode import build
from capture.errors import NotConstant, Unsupported
from capture.guards import GuardKind
from capture.sources import Applied, Source
from capture.tensor_attributes import is_leaf, is_nested, is_quantized, layout_of
from capture.trace_rules import module_of
from symshapes import UnbackedError, is_open

from . import autograd_state
from .base import Args, Interpreter, Kwargs, Variable
from .building import builds, part
from .constants import BoundBuiltin, Constant, Known
from .descriptors import descriptor_get
from .handlers import handler_of
from .iterators import SequenceIterator
from .lookups import MISSING, class_lookup
from .number_arguments import selected, tensor_of, weighted
from .reconstruction import CannotReconstruct, Emitter
from .sequences import List, Tuple
from .slices import Slice

#: Attributes that the fake answers as a plain value.
METADATA = frozenset({"dtype", "layout", "ndim", "itemsize", "requires_grad", "is_nested", "is_quantized"})
METADATA_BY_DEVICE = {
    f"is_{kind}": kind for kind in ("cuda", "cpu", "mps", "xpu", "meta", "xla", "hpu", "mtia", "ipu", "maia", "vulkan")
}
#: What torch's methods and attributes that are written in C are in the class.
_OF_C = frozenset({types.MethodDescriptorType, types.GetSetDescriptorType, types.WrapperDescriptorType})
#: Attributes that are operations, recorded as ``getattr``.
VIEW_ATTRIBUTES = frozenset({"T", "mT", "H", "mH", "real", "imag"})
#: Methods that read data, expose memory, or touch autograd in a way a graph cannot express.
DENIED_METHODS = frozenset(
    {
        "tolist", "numpy", "data_ptr", "backward", "register_hook", "register_post_accumulate_grad_hook",
        "retain_grad", "set_", "resize_", "resize_as_", "share_memory_", "storage", "untyped_storage",
        "typed_storage", "detach_", "__array__", "__dlpack__", "is_shared", "record_stream", "apply_", "map_",
        "map2_", "module_load", "__deepcopy__", "__reduce_ex__", "__setstate__", "rename_", "is_set_to",
        "requires_grad_", "is_pinned", "pin_memory", "new", "type", "__iter__", "__len__", "__hash__", "__format__",
        "__init__", "__bool__", "__int__", "__float__", "as_subclass", "__getitem__", "__setitem__",
    }
)  # fmt: skip
#: Methods that give a bool of what is in the data, as the functions of these names do.
_ANSWERED = frozenset({"equal", "allclose"})
_NUMBERS = {"__int__": int, "__float__": float}
#: What the method calls otherwise than the function does.
_AS_FUNCTION = {"gradient": "grad_tensors"}


def _hangs_alone(m: Interpreter, value: Variable) -> bool:
    """Whether nothing hangs from a value that the frame could have put there."""
    if isinstance(value, Tensor):
        return value.source is not None or not value.given
    return value.source is not None or m.builder.is_constant(value)


class Tensor(Variable):
    """``fake`` is the ``FakeTensor``; ``value`` the real tensor if it is an input of the frame."""

    node: fx.Node

    def __init__(self, node: fx.Node, fake: torch.Tensor, cls: type = torch.Tensor) -> None:
        self.node = node
        self.fake = fake
        self.cls = cls
        self.value: torch.Tensor | None = None
        #: Where an `if` that only the run decides gave it, which may be another tensor than it seems to be: the `if`; else None.
        self.either: Any = None
        #: What the program made of its attributes, in the order in which that is done again.
        self.given: dict[str, Variable] = {}

    def python_type(self) -> type:
        return self.cls

    def hash_key(self, m: Interpreter) -> Hashable:
        self.as_object(m)
        return m.identity.key(self)

    def as_object(self, m: Interpreter) -> None:
        """It is asked for what it is beside what it holds. Evaluates again where an `if` decides that."""
        if self.either is not None:
            m.recorder.without_arms(self.either)

    def truth(self, m: Interpreter) -> bool:
        if self.has_own(m, "__bool__"):
            return m.operators.truth(m.operators.answer(self.method(m, "__bool__", [], {}), bool, "__bool__"))
        asked = self.ask(m, "__bool__")
        if asked is not None:
            return m.operators.truth(asked)
        told = m.recorder.told(self)
        while isinstance(told, list) and len(told) == 1:
            (told,) = told
        if told is None or isinstance(told, list):  # of several numbers, or of none: torch refuses
            raise Unsupported("branch on a tensor's value")
        return bool(told)

    def replaced(self, m: Interpreter, name: str) -> Any:
        """What a program has put in the place of one of torch's methods, or beside them; None if it has not."""
        raw, _ = class_lookup(m, self.cls, name)
        if type(raw) in _OF_C:  # as of nearly all
            return None
        code = raw.fget if isinstance(raw, property) else getattr(raw, "__func__", raw)
        foreign = isinstance(code, types.FunctionType) and module_of(code).partition(".")[0] != "torch"
        return raw if foreign else None

    def ask(self, m: Interpreter, method: str, *args: Variable) -> Variable | None:
        """What a mode, or the classes of operands, make of one of torch's methods; None where none is asked."""
        return m.modes.answer(getattr(torch.Tensor, method), [self, *args], {}) if m.modes.active else None

    def has_own(self, m: Interpreter, name: str) -> bool:
        """Whether its class, which is the program's, has a special method of its own."""
        return False

    def check_operator(self, m: Interpreter, name: str) -> None:
        """The operator is torch's."""
        if self.replaced(m, name) is not None:
            raise Unsupported(f"Tensor.{name}, which the program has replaced")

    def attribute(self, m: Interpreter, name: str) -> Variable:
        raw = self.replaced(m, name)
        if raw is not None:
            return descriptor_get(m, raw, self.cls, self, self.cls, name)
        return self.torch_attribute(m, name)

    def torch_attribute(self, m: Interpreter, name: str) -> Variable:
        """An attribute of torch's, whatever the class has by its name."""
        if m.modes.active:
            told = self.asked_to_read(m, name)
            if told is not None:
                return told
        m.recorder.asked_grad += name == "requires_grad"
        if name in METADATA:
            return Constant(getattr(self.fake, name))
        if name == "nbytes":
            return m.operators.binary("*", self.measure(m, "numel", [], {}), Constant(self.fake.itemsize))
        if name == "device":
            return Constant(self.fake.device)
        if name in METADATA_BY_DEVICE:
            return Constant(self.fake.device.type == METADATA_BY_DEVICE[name])
        if name == "is_sparse":
            return Constant(self.fake.layout is torch.sparse_coo)
        if name == "shape":
            return self.torch_method(m, "size", [], {})
        if name in VIEW_ATTRIBUTES:
            return m.recorder.record("call_function", getattr, [self, Constant(name)], {})
        if name == "__class__":
            return m.builder.known(self.cls)
        if name in autograd_state.READ:
            self.require_plain(m, name)
            self.as_object(m)
            if self.value is not None and name != "data":
                autograd_state.check_unseen(m)
            return autograd_state.READ[name](m, self)
        if name == "_version":
            self.require_plain(m, name)
            self.as_object(m)
            return Constant(m.recorder.version(self))
        if name in ("__dict__", "_base", "names", "_backward_hooks"):
            raise Unsupported(f"Tensor.{name}")
        if name in self.given:
            return self.given[name]
        if self.value is not None and name in getattr(self.value, "__dict__", {}):
            return m.builder.wrap(self.value.__dict__[name], part(self.source, name))
        found = getattr(torch.Tensor, name, None)
        if found is None:
            if self.value is not None:
                m.guards.no_attribute(self, name)
            self.as_object(m)
            m.errors.throw(AttributeError, f"'{self.cls.__name__}' object has no attribute '{name}'")
        if callable(found):
            return BoundBuiltin(self, name)
        raise Unsupported(f"Tensor.{name}")

    def asked_to_read(self, m: Interpreter, name: str) -> Variable | None:
        """What a mode, or its class, makes of reading one of torch's attributes; None where none is asked."""
        return m.modes.answer(getattr, [self, Constant(name)], {})

    def require_plain(self, m: Interpreter, name: str) -> None:
        """Raise ``Unsupported`` within a function transform, or for what is left of one: what it is about is the transform's there."""
        if m.levels.inside or is_wrapped(self.fake):
            raise Unsupported(f"Tensor.{name} within a function transform")

    def place_of(self, name: str) -> Source:
        """Where what torch says of an input is read."""
        return part(self.source, name)

    @property
    def is_leaf(self) -> bool:
        """Whether it is one of autograd's leaves."""
        return bool(self.fake.is_leaf)

    def real(self, name: str) -> Any:
        """What torch says of the tensor that an input is at this capture."""
        return getattr(self.value, name)

    def of_object(self, m: Interpreter, name: str, args: Args) -> Variable | None:
        """What a method of ``object`` comes to that a class of the program's calls from its own; None for others."""
        return None

    def set_attribute(self, m: Interpreter, name: str, value: Variable) -> None:
        self.require_plain(m, name)
        self.as_object(m)
        if isinstance(class_lookup(m, self.cls, name)[0], types.GetSetDescriptorType) and m.modes.asks([self]):
            raise Unsupported(f"setting attribute {name!r} of a tensor, which is asked about")
        if name in autograd_state.SET:
            autograd_state.set_plainly(m, self, name, value)
            return
        if self.cls not in (torch.Tensor, torch.nn.Parameter) or class_lookup(m, self.cls, name)[0] is not MISSING:
            raise Unsupported(f"setting attribute {name!r} of a tensor")
        self.put(m, name, value)

    def put(self, m: Interpreter, name: str, value: Variable) -> None:
        """Hang a value from the tensor."""
        value = value.realize(m)
        if self.source is None and not _hangs_alone(m, value):  # it would be given to what it hangs from
            raise Unsupported(f"setting attribute {name!r} of a tensor of the frame's to {value!r}")
        autograd_state.give(m, self, name, value)

    def delete_attribute(self, m: Interpreter, name: str) -> None:
        if name != "grad":
            raise Unsupported(f"deleting attribute {name!r} of a tensor")
        self.set_attribute(m, name, Constant(None))

    def written(self) -> Iterable[Variable]:
        return self.given.values()

    def replay(self, e: Emitter) -> None:
        for name, value in self.given.items():
            e.load(value)
            e.load(self)
            e.emit(build.store_attr(name))

    def attached(self) -> Iterable[Variable]:
        return () if self.source is not None else self.given.values()

    def method(self, m: Interpreter, name: str, args: Args, kwargs: Kwargs) -> Variable:
        args = [a.realize(m) for a in args]
        raw = self.replaced(m, name)
        if raw is not None:
            return m.calls.call(self.attribute(m, name), args, kwargs)
        return self.torch_method(m, name, args, kwargs)

    def torch_method(self, m: Interpreter, name: str, args: Args, kwargs: Kwargs) -> Variable:
        """A method of torch's, whatever the class has by its name; arguments were looked at."""
        if m.modes.active and hasattr(torch.Tensor, name):
            told = m.modes.answer(getattr(torch.Tensor, name), [self, *args], kwargs)
            if told is not None:
                return told
        if name in DENIED_METHODS:
            m.recorder.keeps_apart(self, "call_method", name)
            return self.special_method(m, name, args, kwargs)
        if name in _ANSWERED:
            return m.calls.call(m.builder.known(getattr(torch, name)), [self, *args], kwargs)
        if name == "is_inference" and not args and not kwargs:
            return Constant(m.recorder.is_inference(self))
        if name == "storage_offset":
            self.as_object(m)
            m.recorder.note_offset(self)
        if name in ("size", "dim", "stride", "ndimension", "numel", "nelement", "storage_offset"):
            return self.measure(m, name, args, kwargs)
        if not hasattr(torch.Tensor, name):
            return m.calls.call(self.attribute(m, name), args, kwargs)
        if name == "new_tensor" and len(args) == 1 and not kwargs:
            found = tensor_of(m, args[0], Constant(self.fake.dtype), Constant(self.fake.device))
            if found is not None:
                return found
        given: Args = [self, *args]
        if name in ("lerp", "lerp_"):
            given, kwargs = weighted(m, given, kwargs)
        return m.recorder.record("call_method", name, given, kwargs)

    def special_method(self, m: Interpreter, name: str, args: Args, kwargs: Kwargs) -> Variable:
        """A method that no graph can hold, where its arguments make it one that can be followed; raises ``Unsupported``."""
        if name not in ("__len__", "__iter__", "__init__", "__bool__", "__getitem__", "__setitem__"):
            self.require_plain(m, name)
        if name in autograd_state.CALLED:
            return autograd_state.CALLED[name](m, self, args, kwargs)
        if name == "backward":
            names = ("grad_tensors", "retain_graph", "create_graph", "inputs")
            given = dict(zip(names, args, strict=False)) | {_AS_FUNCTION.get(k, k): v for k, v in kwargs.items()}
            return m.calls.call(m.builder.known(torch.autograd.backward), [self], given)
        handler = handler_of(getattr(torch.Tensor, name, None))
        if handler is not None:
            return handler(m, [self, *args], kwargs)
        if name == "tolist" and config.capture_data_dependent and all(map(_is_told, self.fake.shape)):
            return m.recorder.record("call_method", name, [self], {})
        if name in ("__bool__", "__int__", "__float__"):
            return self.as_number(m, _NUMBERS[name]) if name != "__bool__" else Constant(self.truth(m))
        if name == "__init__":
            return Constant(None)
        if name == "__getitem__":
            return self.torch_item(m, args[0])
        if name == "__setitem__":
            self.torch_set_item(m, *args)
            return Constant(None)
        if name == "__len__":
            return self.torch_length(m)
        if name == "__iter__":
            return self.torch_iterate(m)
        if name == "type" and (args or kwargs):
            return m.recorder.record("call_method", name, [self, *args], kwargs)
        if name == "type":
            return Constant(self.fake.type().replace("capture.", "torch."))
        raise Unsupported(f"Tensor.{name}()")

    def measure(self, m: Interpreter, name: str, args: Args, kwargs: Kwargs) -> Variable:
        """Sizes, strides and counts: constants where they are, else a node per symbolic number."""
        try:
            real = [m.builder.to_python(a) for a in args]
            named = {k: m.builder.to_python(v) for k, v in kwargs.items()}
        except NotConstant:
            raise Unsupported(f"Tensor.{name} of an argument that is not constant") from None
        if name == "stride" and self.source is None and any(map(is_open, self.fake.shape)):
            raise Unsupported("a stride by sizes that may be 1, of which none counts there")
        if name == "size" and not real and not named:
            value = self.fake.shape  # torch's own, whatever is put in the place of the method
        else:
            value = m.builder.fold(getattr(self.fake, name), real, named)
        if isinstance(value, tuple):
            cls = torch.Size if name == "size" else tuple
            items = [self.number(m, name, [i], v) for i, v in enumerate(value)]
            return m.effects.created(Tuple(items, cls))
        return self.number(m, name, real, value, named)

    def number(self, m: Interpreter, name: str, args: list[Any], value: Any, kwargs: Any = None) -> Variable:
        """One of the numbers of ``measure``: a constant, or the node that computes it."""
        if not isinstance(value, torch.SymInt):
            return Constant(value)
        if name == "stride" and not value.node.has_hint():
            raise Unsupported("a stride by sizes that only the run can tell, of which none counts where it is 0")
        return m.recorder.number(self, name, args, kwargs or {}, value)

    def length(self, m: Interpreter) -> Variable:
        if self.has_own(m, "__len__"):
            return m.operators.answer(self.method(m, "__len__", [], {}), int, "__len__")
        self.check_operator(m, "__len__")
        return self.torch_length(m)

    def torch_length(self, m: Interpreter) -> Variable:
        """What torch's own ``__len__`` gives, whatever the class has."""
        asked = self.ask(m, "__len__")
        if asked is not None:
            return m.operators.answer(asked, int, "__len__")
        if self.fake.dim() == 0:
            m.errors.throw(TypeError, "len() of a 0-d tensor")
        return self.measure(m, "size", [Constant(0)], {})

    def as_number(self, m: Interpreter, cls: type) -> Variable:
        """``bool``, ``int`` or ``float`` of the one element, as a symbolic number."""
        self.check_operator(m, f"__{cls.__name__}__")
        asked = self.ask(m, f"__{cls.__name__}__")
        if asked is not None:
            return m.operators.answer(asked, cls, f"__{cls.__name__}__")
        if not config.capture_data_dependent or self.fake.numel() != 1 or self.fake.dtype.is_complex:
            raise Unsupported(f"{cls.__name__}() of a tensor's value")
        given: Variable = self
        if cls is bool and self.fake.dtype is not torch.bool:
            given = m.recorder.record("call_function", operator.ne, [self, Constant(0)], {})
        elif cls is not bool and self.fake.dtype is torch.bool:
            given = m.recorder.record("call_method", "to", [self, Constant(torch.uint8)], {})
        number = m.recorder.record("call_method", "item", [given], {})
        if number.python_type() is cls:
            return number
        with m.modes.silent():
            return m.recorder.record("call_function", torch.sym_int if cls is int else torch.sym_float, [number], {})

    def is_index(self) -> bool:
        """Whether it stands for one integer, which a graph can hold."""
        dtype = self.fake.dtype
        whole = not (dtype.is_floating_point or dtype.is_complex or dtype is torch.bool)
        return config.capture_data_dependent and whole and self.fake.numel() == 1

    def iterate(self, m: Interpreter) -> Variable:
        if self.has_own(m, "__iter__"):
            return m.iteration.iterate_with(self.attribute(m, "__iter__"))
        self.check_operator(m, "__iter__")
        return self.torch_iterate(m)

    def torch_iterate(self, m: Interpreter) -> Variable:
        """What torch's own ``__iter__`` gives, whatever the class has."""
        if m.modes.active and m.modes.asks([self]):  # about what torch's own Python calls there
            self.torch_method(m, "dim", [], {})
            return self.torch_method(m, "unbind", [Constant(0)], {}).realize(m).iterate(m)
        if self.fake.dim() == 0:
            m.errors.throw(TypeError, "iteration over a 0-d tensor")
        parts = m.recorder.record("call_method", "unbind", [self, Constant(0)], {})
        return m.effects.created(SequenceIterator(parts))

    def item(self, m: Interpreter, key: Variable) -> Variable:
        if self.has_own(m, "__getitem__"):
            return self.method(m, "__getitem__", [key], {})
        self.check_operator(m, "__getitem__")
        return self.torch_item(m, key)

    def torch_item(self, m: Interpreter, key: Variable) -> Variable:
        """``self[key]`` as torch has it."""
        key.realize(m)
        told = m.modes.answer(operator.getitem, [self, key], {}) if m.modes.active else None
        if told is not None:
            return told
        tensor, rest = selected(m, self, _with_numbers(m, key))
        if rest is None:
            return tensor
        try:
            return m.recorder.record("call_function", operator.getitem, [tensor, rest], {})
        except Unsupported as problem:
            tensor, rest = _selected_by_data(m, tensor, rest, problem)
        return tensor if rest is None else m.recorder.record("call_function", operator.getitem, [tensor, rest], {})

    def set_item(self, m: Interpreter, key: Variable, value: Variable) -> None:
        if self.has_own(m, "__setitem__"):
            self.method(m, "__setitem__", [key, value], {})
            return
        self.check_operator(m, "__setitem__")
        self.torch_set_item(m, key, value)

    def torch_set_item(self, m: Interpreter, key: Variable, value: Variable) -> None:
        """``self[key] = value`` as torch has it."""
        for each in (key, value):
            each.realize(m)
        if m.modes.active and m.modes.answer(operator.setitem, [self, key, value], {}) is not None:
            return
        tensor, rest = selected(m, self, _with_numbers(m, key))
        try:
            m.recorder.record("call_function", operator.setitem, [tensor, rest or Constant(...), value], {})
        except Unsupported as problem:
            tensor, rest = _selected_by_data(m, tensor, rest or Constant(...), problem)
            m.recorder.record("call_function", operator.setitem, [tensor, rest or Constant(...), value], {})

    def contains(self, m: Interpreter, value: Variable) -> bool:
        if self.has_own(m, "__contains__"):
            return m.operators.truth(self.method(m, "__contains__", [value], {}))
        asked = self.ask(m, "__contains__", value)
        if asked is not None:
            return m.operators.truth(asked)
        raise Unsupported("membership test on a tensor")

    def call(self, m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
        m.errors.throw(TypeError, f"'{self.cls.__name__}' object is not callable")

    def made_of(self) -> Iterable[Variable]:
        return ()

    def reconstruct(self, e: Emitter) -> None:
        raise CannotReconstruct(self, "a graph result that was not planned")

    def as_argument(self, m: Interpreter) -> tuple[Any, Any]:
        return self.node, self.fake

    def __repr__(self) -> str:
        return f"<tensor {self.node.name}>"


def any_asked_below(values: Iterable[Variable]) -> bool:
    """Whether one is a tensor that the graph has not: its class says below autograd what a call comes to."""
    return any(isinstance(each, Tensor) and each.node is None for each in values)


class Accessor(Known):
    """What torch hands to a torch-function mode where an attribute of a tensor is read or set: what does that."""

    #: The methods of a descriptor that are such.
    METHODS = ("__get__", "__set__")

    def call(self, m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
        method, name = self.value.__name__, self.value.__self__.__name__
        tensor, *given = [arg.realize(m) for arg in args] or [Constant(None)]
        if isinstance(tensor, Tensor) and not kwargs:
            if method == "__get__" and len(given) <= 1:
                return tensor.torch_attribute(m, name)
            if method == "__set__" and len(given) == 1 and name in autograd_state.SET:
                autograd_state.set_by_torch(m, tensor, name, given[0])
                return Constant(None)
        raise Unsupported(f"{method} of Tensor.{name}")

    def attribute(self, m: Interpreter, name: str) -> Variable:
        found = m.builder.fold(getattr, [self.value, name])
        return m.builder.from_python(found) if isinstance(found, str) else m.builder.known(found)


def _is_told(length: Any) -> bool:
    """Whether a length is known now; a symbolic one is guarded to what it is where that many things are made of it."""
    return type(length) is int or (length.node.has_hint() and int(length) >= 0)


def _with_numbers(m: Interpreter, key: Variable) -> Variable:
    """A key with the values of the tensors that its slices end at, as torch takes them, and places in sequences as tensors."""
    real = key.realize(m)
    if type(real) is Tuple:
        items = [_places_in(m, item) or _with_numbers(m, item) for item in real.items]
        return real if all(one is other for one, other in zip(items, real.items, strict=True)) else Tuple(items)
    if not isinstance(real, Slice):
        return key
    parts = [part.realize(m) for part in real.parts]
    ends = [end for end in parts if isinstance(end, Tensor)]
    if not ends or not all(end.is_index() for end in ends):
        return key
    return Slice(*(end.as_number(m, int) if isinstance(end, Tensor) else end for end in parts))


def _selected_by_data(m: Interpreter, tensor: Any, key: Variable, problem: Unsupported) -> tuple[Any, Variable | None]:
    """What `selected` gives with the numbers that tensors in a key hold, where only the run can tell them; raises `problem` of any other."""
    if not isinstance(problem.__cause__, UnbackedError) or m.levels.inside:
        raise problem
    real = key.realize(m)
    parts = [part.realize(m) for part in real.items] if type(real) is Tuple else [real]
    with m.modes.silent():
        numbers = [m.recorder.record("call_method", "item", [part], {}) if _is_place(part) else part for part in parts]
    if all(one is other for one, other in zip(numbers, parts, strict=True)):
        raise problem
    return selected(m, tensor, Tuple(numbers))


def _is_place(part: Variable) -> bool:
    """Whether torch takes the one number that a tensor holds for a position, as it does of whole numbers without dimensions."""
    if not isinstance(part, Tensor) or part.cls is not torch.Tensor or part.fake.dim():
        return False
    return part.is_index() and part.fake.dtype is not torch.uint8


def _places_in(m: Interpreter, part: Variable) -> Variable | None:
    """The tensor that torch makes of a sequence of tensors that are integers, in a key; None where there is none."""
    real = part.realize(m)
    items = [item.realize(m) for item in real.items] if isinstance(real, (Tuple, List)) else []
    if not items or not all(
        isinstance(item, Tensor) and item.fake.dim() == 0 and item.fake.dtype is torch.int64 for item in items
    ):
        return None
    return m.recorder.record("call_function", torch.stack, [m.builder.new_tuple(items)], {})


@contextmanager
def noting_refusal(m: Interpreter, value: torch.Tensor, source: Source | None) -> Iterator[None]:
    """Where the block raises ``Unsupported`` for a tensor that no graph holds, guard that: a break for its kind is not for others."""
    try:
        yield
    except Unsupported:
        if source is not None and not is_held(value):
            m.guards.add(Applied(source, _is_held, 0), GuardKind.EQUALS, False)
        raise


def _is_held(value: Any, _: int) -> bool:
    return is_held(value)


@builds(torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
def _build_tensor(m: Interpreter, value: torch.Tensor, source: Source | None) -> Variable:
    with noting_refusal(m, value, source):
        return input_tensor(m, value, source, Tensor)


def input_tensor(m: Interpreter, value: torch.Tensor, source: Source | None, kind: type[Tensor]) -> Variable:
    """The variable, of a kind, of a tensor from outside, which becomes an input of the graph."""
    if layout_of(value) is not torch.strided:
        raise Unsupported(f"tensor of layout {layout_of(value)}")
    if is_nested(value) or is_quantized(value):
        raise Unsupported("nested or quantized tensor")
    if source is None:
        raise Unsupported("tensor of unknown origin")
    try:
        is_leaf(value)
    except RuntimeError as error:  # a view whose base was written in a way that leaves it no place in autograd
        raise Unsupported(f"a tensor that cannot be differentiated: {error}") from error
    node, fake = m.recorder.input(value, source)
    variable = kind(node, fake, type(value))
    variable.value = value
    m.recorder.know(variable)
    return variable
