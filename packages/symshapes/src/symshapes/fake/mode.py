"""`FakeMode`: the one point where an op on fake tensors becomes a rule's answer.

In: an `OpOverload` and its arguments. Out: fake tensors that carry the metadata eager's results would have.
"""

from collections.abc import Iterable
from contextlib import nullcontext
from typing import Any

import torch

import symshapes.rules  # noqa: F401  (registers every rule)
from symshapes import _torch
from symshapes.expr.symbols import STORAGE_BYTES, SYMBOLIC, is_open, is_unbacked
from symshapes.facts import ANYTHING, NOTHING, OperatorFacts, errors
from symshapes.facts.layout import same_size
from symshapes.fake.contents import comparison_of, content_of, note_content
from symshapes.fake.convert import Converter
from symshapes.fake.data import DATA, SizesInData
from symshapes.fake.fallback import run_meta_kernel
from symshapes.fake.layouts import LAYOUTS
from symshapes.fake.tensor import FakeTensor, SymbolicFakeTensor, fake_class, meta_of
from symshapes.infra_mode import InfraMode
from symshapes.node import SymNode
from symshapes.rules import matmul, registry
from symshapes.rules.kernels import unasked
from symshapes.rules.layout import Same, TensorMeta, View, same_shape, sure
from symshapes.rules.registry import DataDependentError, rule_and_facts
from symshapes.rules.views import view_may_be

_ATOMS = frozenset(
    {int, str, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format, torch.Generator}
)
_TYPED = frozenset({bool, float, complex})
_SEQUENCES = frozenset({list, tuple, torch.Size})

_METAS = frozenset({TensorMeta, View})

# What torch's C++ asks of a tensor with symbolic sizes where it can only work with ints: guarded to their hints.
_CONCRETE: dict[Any, Any] = {
    torch.ops.aten.size.default: lambda t: [int(length) for length in t.shape],
    torch.ops.aten.stride.default: lambda t: [int(step) for step in t.stride()],
    torch.ops.aten.numel.default: lambda t: int(t.numel()),
    torch.ops.aten.storage_offset.default: lambda t: int(t.storage_offset()),
}


_NOTHING = nullcontext()
_SELECT = torch.ops.aten.select.int
_CLONE = torch.ops.aten.clone.default
_UNSAFE_VIEW = torch.ops.aten._unsafe_view.default
_FROM_START = frozenset(
    getattr(torch.ops.aten, name).default
    for name in ("as_strided", "as_strided_", "as_strided_copy", "as_strided_scatter")
)


def _products() -> frozenset[Any]:
    """The operators that multiply matrices, in each of their forms: those with a rule among products', and what writes as they do."""
    names = {
        name.partition(".")[0] for name, rule in registry.RULES.named.items() if rule.__module__ == matmul.__name__
    }
    packets = [getattr(torch.ops.aten, each, None) for name in names for each in (name, f"{name}_")]
    return frozenset(getattr(packet, name) for packet in packets if packet is not None for name in packet.overloads())


_PRODUCTS = _products()


def _is_told(number: Any) -> bool:
    """Whether a size is known when the program is captured, rather than one that only the run tells, or one that may be 1."""
    return not (is_unbacked(number) or is_open(number))


def _may_lie_so(tensor: Any, copy: Any) -> bool:
    """Whether only the run can tell if a tensor lies in memory as its copy does, so that eager may have made none.

    What copied, `contiguous`, `reshape` or the program itself, is not known here.
    """
    unlike = [
        (step, other, length)
        for step, other, length in zip(tensor.stride(), copy.stride(), tensor.shape, strict=True)
        if not (same_size(step, other) or sure(step == other) or sure(length == 1))
    ]
    if not unlike or all(map(_is_told, (*tensor.shape, *tensor.stride()))):
        return False
    return not all(sure(length > 1) and sure(step != other) for step, other, length in unlike)


def _has_integers(values: Iterable[Any]) -> bool:
    """Whether a tensor of integers on the host is among arguments."""
    for value in values:
        if type(value) in _SEQUENCES:
            if _has_integers(value):
                return True
        elif isinstance(value, torch.Tensor) and value.device.type == "cpu":
            dtype = value.dtype
            if not (dtype.is_floating_point or dtype.is_complex or dtype is torch.bool):
                return True
    return False


class FakeMode(InfraMode):
    """Inside it no kernel runs: factory functions and ops give fake tensors.

    `shape_env`, if given, makes symbols for the dynamic sizes of converted tensors. Ops that need data raise
    `DataDependentError`; with `data_dependent` those that have a row in `fake/data.py` give symbols of `shape_env` that
    only the run knows. Entering one mode inside another replaces it until the exit.
    """

    def __init__(self, shape_env: Any | None = None, *, data_dependent: bool = False) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.shape_env = shape_env
        # Fakes have no storage: whoever asks it for its bytes is told that only the run knows.
        self.storage_size = None if shape_env is None else torch.SymInt(SymNode(STORAGE_BYTES, shape_env, None, int))
        self.data_dependent = data_dependent and shape_env is not None
        self.numbers_read: list[Any] = []
        """Tensors whose `FakeTensor.number` was asked for; whoever gives numbers may clear it."""
        self.counts: dict[Any, Any] = {}
        self.written: dict[object, int] = {}
        self.write_log: list[object] = []
        """The memory of each write, one after the other."""
        self.wrote_apart = False
        """Whether an operator wrote to a storage that tensors share of which each counts its own writes (`view_apart`)."""
        self._apart: set[object] = set()
        self.asks_kernels = False
        """Whether ops are a program's own, which eager refuses where it has no kernel for their dtypes; what they are made of need have none."""
        self.effects = 0
        """How many ops did more than give results: drew random numbers, wrote to an argument, or returned nothing."""
        self.writes = 0
        """How many of these wrote to an argument."""
        self.draws = 0
        """How many drew random numbers."""
        self.lasting = 0
        """How many left behind what neither tensors nor generators hold."""
        self.risks = 0
        """How many ops may raise by what is in their arguments, where kernels run while they are called."""
        self.multiplied = False
        """Whether any multiplied matrices of float32 on a device that may read but the leading bits of them."""
        self.unsaid: list[object] = []
        """Storages that were written to by operators that no version counter tells of, once a write."""
        # In this slot the mode stays below user modes (see _torch.py).
        self._mode_key = _torch.FAKE_SLOT
        self._shadowed: list[Any | None] = []
        self._lifting: list[bool] = []
        self.counted_from_start: set[object] = set()
        """Storages (see `FakeTensor.storage_key`) of which elements were counted from their start: a tensor's own offset matters."""
        self.counts_from_start = 0
        """How often they were, of whichever storage."""
        self.doubtful_copies = 0
        """How many copies were made where eager may make none, by sizes that only the run can tell: `contiguous`, `reshape`."""
        #: The storages of what these are copies of, and their own: nobody may write to them.
        self._perhaps_one: list[tuple[object, object]] = []
        self._copied: tuple[Any, Any] | None = None
        self._converter = Converter(self)
        self._plans: dict[Any, Any] = {}
        self.reshaped: dict[Any, tuple[bool, tuple[Any, ...]]] = {}
        """Whether a reshape is a view, and its sizes, by the expressions that it is made of."""
        self._symbolic = False  # whether the key being made has a symbol in it

    def __enter__(self) -> "FakeMode":
        self._shadowed.append(_torch.clear_fake_slot() if _torch.current_fake_mode() is not None else None)
        super().__enter__()  # type: ignore[no-untyped-call]
        self._lifting.append(_torch.lift_from_cpu(not _torch.has_gpu()))
        return self

    def __exit__(self, *exc: Any) -> None:
        _torch.lift_from_cpu(self._lifting.pop())
        super().__exit__(*exc)  # type: ignore[no-untyped-call]
        shadowed = self._shadowed.pop()
        if shadowed is not None:
            _torch.set_fake_slot(shadowed)

    def from_tensor(
        self,
        t: torch.Tensor,
        *,
        source: str | None = None,
        policy: Any | None = None,
        alike: Any | None = None,
        symbolic_strides: Any = (),
    ) -> Any:
        """The fake of `t`: same size, stride, offset, dtype, device, autograd state; one fake for one tensor.

        `policy` (one `DimPolicy`, or one a dimension) asks for symbolic sizes, which the mode's `shape_env` makes;
        strides follow the sizes. `alike` has for each dimension what `ShapeEnv.create_size` takes for that;
        `symbolic_strides` tells of each whether a stride that does not follow from sizes is a symbol; a `DimPolicy` there, that
        it is in any case. Raises NotImplementedError for layouts other than strided.
        """
        return self._converter.convert(t, source, policy, alike, symbolic_strides)

    def forget_tensors(self) -> None:
        """Hold no reference to a tensor, to a real one not even a weak one: the next conversion of one makes another fake."""
        self._converter.forget_tensors()
        self._copied = None

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return self.dispatch(func, args, kwargs or {})

    def signature(self, values: Iterable[Any], differentiates: bool) -> tuple[Any, ...] | None:
        """What metadata of results follows from, of a call with these arguments; equal for calls alike.

        None where more counts than that: symbols, an element that may be known, or, where it `differentiates`, a gradient.
        """
        parts: list[Any] = []
        for value in values:
            kind = type(value)
            if kind is FakeTensor:
                meta = meta_of(value)
                if value.fake_mode is not self or not meta.size or (differentiates and value.requires_grad):
                    return None
                for number in (*meta.stride, meta.offset):  # sizes are ints
                    if type(number) is not int:
                        return None
                parts.append(meta)
            elif kind in _ATOMS:
                parts.append(value)
            elif kind in _TYPED:
                parts.append((kind, value))
            elif kind in _SEQUENCES:
                within = self.signature(value, differentiates)
                if within is None:
                    return None
                parts.append((kind, within))
            elif kind is slice:
                within = self.signature((value.start, value.stop, value.step), differentiates)
                if within is None:
                    return None
                parts.append((kind, within))
            else:
                return None
        return tuple(parts)

    def metadata(self, fake: FakeTensor) -> TensorMeta:
        """The metadata of a fake without symbols as it is now, for `another`."""
        return meta_of(fake)

    def another(self, metadata: TensorMeta) -> FakeTensor:
        """A new tensor, of a storage of its own, with the `metadata` of one without symbols."""
        return self._alike(metadata, object())

    def view_apart(self, metadata: TensorMeta, base: FakeTensor) -> FakeTensor:
        """A new tensor with the storage of `base`, as a view is, but with a version counter of its own.

        Which tells nothing of writes to the other: `wrote_apart` says once there was one.
        """
        self._apart.add(base.storage_key)
        return self._alike(metadata, base.storage_key)

    def _alike(self, metadata: TensorMeta, storage_key: object) -> FakeTensor:
        """What the class makes of metadata that a fake without symbols has: with less to look at."""
        size, stride, dtype, device, offset, flags = metadata
        if flags:
            made = FakeTensor(self, metadata, storage_key)
        else:
            made = _torch.plain_wrapper(FakeTensor, size, stride, offset, dtype, device)
            made.fake_mode, made.storage_key, made.lazy_flags = self, storage_key, 0
        made.told = metadata
        return made

    def was_written(self, tensor: FakeTensor) -> bool:
        """Whether an operator wrote to the storage of a fake."""
        return tensor.storage_key in self.written

    def draw(self, times: int) -> None:
        """Count operators that were not run again, and draw random numbers."""
        self.effects += times
        self.draws += times

    def is_question(self, func: Any) -> bool:
        """Whether torch's C++ asks for a tensor's metadata by it: it is no operation of the program."""
        return func in _CONCRETE or func in LAYOUTS

    def dispatch(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Answer one op: by the memo, by its rule, by its own decomposition, or by torch's meta kernel."""
        layout = LAYOUTS.get(func)
        if layout is not None:  # of a tensor of another mode's, maybe
            return layout(args[0].shape, args[0].strides, *args[1:])
        if self.shape_env is None:
            return self._answer(func, args, kwargs)
        with _torch.no_torch_function():
            outer, self.shape_env.operator = self.shape_env.operator, func
            try:
                if func in _CONCRETE:
                    return _CONCRETE[func](args[0])
                return self._answer(func, args, kwargs)
            except DataDependentError:
                known = DATA.get(func) if self.data_dependent else None
                if known is None:
                    raise
            finally:
                self.shape_env.operator = outer
            return self._build(known(self.shape_env, *args, **kwargs), args)

    def _answer(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        rule, facts = rule_and_facts(func)
        if facts.data_errors != NOTHING and (facts.data_errors == ANYTHING or _has_integers((*args, *kwargs.values()))):
            self.risks += 1
        if func in _PRODUCTS and args[0].dtype is torch.float32 and args[0].device.type != "cpu":
            self.multiplied = True
        if func in _FROM_START:
            self.counted_from_start.add(self._fake(args[0]).storage_key)
            self.counts_from_start += 1
        if facts.acts:
            self.effects += 1
            self.writes += bool(facts.written)
            self.draws += facts.random
            self.lasting += facts.lasts
            for written in facts.written:
                given = written.of(args, kwargs)
                for one in given if type(given) in _SEQUENCES else [given]:
                    self.note_write(one)
                if facts.counts_each and written.is_list:
                    _torch.increment_versions(given)
            if self._perhaps_one and any(map(self._is_perhaps_another, (w.of(args, kwargs) for w in facts.written))):
                raise DataDependentError(func)
        elif facts.unsaid and not any(given is False for given in (*args, *kwargs.values())):  # `training`
            self._note_unsaid([one for one in (each.of(args, kwargs) for each in facts.unsaid) if one is not None])
        elif func is _CLONE and (self.data_dependent or (self.shape_env is not None and self.shape_env.has_open)):
            copy = self._build(self._plan(func, rule, args, kwargs), args)
            if kwargs.get("memory_format") is not None:
                self._copied = args[0], copy
                if _may_lie_so(args[0], copy):
                    self._doubt(args[0], copy)
            return copy
        elif func is _UNSAFE_VIEW and self._copied is not None and args[0] is self._copied[1]:
            # `reshape` copies where a view cannot be; by sizes of 1 it can more often than they are laid out alike.
            source, copy = self._copied
            if view_may_be(tuple(source.shape), tuple(source.stride()), tuple(args[1])):
                self._doubt(source, copy)
        if rule is None:
            return self._without_rule(func, facts, args, kwargs)
        plan = self._plan(func, rule, args, kwargs)
        if plan is NotImplemented:
            return self._fall_back(func, args, kwargs)
        made = self._build(plan, args)
        if (
            self.data_dependent
            and type(plan) is TensorMeta
            and plan.dtype is torch.bool
            and facts.elementwise
            and not facts.acts
        ) or (self.data_dependent and func is _SELECT and not made.dim()):
            note_content(made, func, args, kwargs)
        return made

    def _doubt(self, source: Any, copy: Any) -> None:
        self._perhaps_one.append((self._fake(source).storage_key, copy.storage_key))
        self.doubtful_copies += 1

    def note_write(self, tensor: Any) -> None:
        """A fake is written to, if it is one: numbers and sizes that were found in its data are others from now on.

        For those that run operations that write by others that do not; what the mode itself answers it knows.
        """
        if isinstance(tensor, FakeTensor):
            self.written[tensor.storage_key] = self.written.get(tensor.storage_key, 0) + 1
            self.write_log.append(tensor.storage_key)
            self.wrote_apart = self.wrote_apart or tensor.storage_key in self._apart

    def number_in(self, tensor: FakeTensor) -> Any:
        """What stands for the one number that a fake holds now; None where nobody has asked for it since it was written to."""
        return self.counts.get((content_of(tensor), "item"))

    def certain(self, tensor: Any) -> bool | None:
        """Whether a comparison of numbers in data, whose answer a fake holds, is true; None where only the run can tell."""
        return comparison_of(tensor)

    def _note_unsaid(self, written: list[FakeTensor]) -> None:
        self.effects += bool(written)
        self.writes += bool(written)
        for one in written:
            self.unsaid.append(self._fake(one).storage_key)
            if self.data_dependent:
                self.note_write(one)

    def _is_perhaps_another(self, written: Any) -> bool:
        """Whether what is written to may be memory of another tensor, or none of its."""
        tensors = written if type(written) in _SEQUENCES else [written]
        keys = [one.storage_key for one in tensors if isinstance(one, FakeTensor)]
        return any(key in pair for pair in self._perhaps_one for key in keys)

    def may_share(self, tensors: Iterable[Any]) -> bool:
        """Whether two of these may be one memory or not, which only the run can tell: one perhaps is a copy of the other."""
        keys = {one.storage_key for one in tensors if isinstance(one, FakeTensor)}
        groups: list[set[object]] = []  # a copy of a copy is perhaps the first, too
        for pair in self._perhaps_one:
            met = [group for group in groups if not group.isdisjoint(pair)]
            groups = [group for group in groups if group.isdisjoint(pair)] + [set(pair).union(*met)]
        return any(len(keys & group) > 1 for group in groups)

    def decompose(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a composite op by the ops that define it in eager, in the mode in force."""
        return _torch.composite_kernel(func, *args, **kwargs)

    def check(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Refuse what an op would refuse, and have checked by the run what only the run can tell; nothing is computed."""
        rule, facts = rule_and_facts(func)
        if rule is not None and not facts.needs_data:
            with _torch.no_torch_function():
                self._run_rule(self._in_force(rule), args, kwargs)

    def _in_force(self, rule: Any) -> Any:
        """A rule without its question to kernels, where ops are not a program's own."""
        return rule if self.asks_kernels else unasked(rule) or rule

    def _plan(self, func: Any, rule: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The rule's answer, from the memo where one like it was asked for before."""
        symbolic = self._symbolic
        self._symbolic = False
        try:
            key: Any = (
                func,
                self._key(args),
                (*kwargs, *self._key(kwargs.values())) if kwargs else None,
                torch.get_default_dtype(),
            )
            # What has symbols is known to this mode alone: they are its environment's.
            memo = self._plans if self._symbolic else registry.MEMO
        finally:
            self._symbolic = symbolic
        try:
            plan = memo.get(key, memo)
        except TypeError:  # an argument is not hashable: no memo
            return self._run_rule(self._in_force(rule), args, kwargs)
        if plan is memo and (other := self._in_force(rule)) is not rule:
            rule, key = other, (key, "unasked")
            plan = memo.get(key, memo)
        if plan is memo:
            made = 0 if self.shape_env is None else self.shape_env.count
            plan = self._run_rule(rule, args, kwargs)
            if self.shape_env is not None and self.shape_env.count != made:
                return plan  # a size that only the data says: another one each time
            if len(memo) >= registry.MEMO_BOUND:
                memo.clear()
            memo[key] = plan
        return plan

    def _key(self, values: Any) -> tuple[Any, ...]:
        parts: list[Any] = []
        for value in values:
            kind = type(value)
            if kind is FakeTensor or kind is SymbolicFakeTensor:
                if value.fake_mode is not self:
                    raise RuntimeError("a fake tensor of one FakeMode met another FakeMode")
                meta = meta_of(value)
                parts.append(meta if self.shape_env is None else self._meta_key(meta))
            elif kind in _ATOMS:
                parts.append(value)
            elif kind in _TYPED:
                parts.append((kind, value))
            elif kind in _SEQUENCES:
                parts.append(self._key(value))
            elif kind in SYMBOLIC:
                self._symbolic = True
                parts.append((kind, value.node.expr))
            elif isinstance(value, torch.Tensor):
                parts.append(meta_of(self._converter.constant(value)))
            else:
                parts.append(value)
        return tuple(parts)

    def _meta_key(self, meta: TensorMeta) -> Any:
        """What stands for the metadata of a tensor that may have symbolic sizes: their expressions."""
        numbers = (*meta.size, *meta.stride, meta.offset)
        if all(type(number) is int for number in numbers):
            return meta
        self._symbolic = True
        told = [number if type(number) is int else number.node.expr for number in numbers]
        return (len(meta.size), *told, meta.dtype, meta.device, meta.flags)

    def _run_rule(self, rule: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return rule(
            *[self._to_meta(value) for value in args],
            **{name: self._to_meta(value) for name, value in kwargs.items()},
        )

    def _to_meta(self, value: Any) -> Any:
        if isinstance(value, FakeTensor):
            return meta_of(value)
        if isinstance(value, torch.Tensor):
            return meta_of(self._converter.constant(value))
        if type(value) in _SEQUENCES:
            return [self._to_meta(item) for item in value]
        return value

    def _build(self, plan: Any, args: tuple[Any, ...]) -> Any:
        kind = type(plan)
        if kind is TensorMeta:
            return self._class(plan)(self, plan)
        if kind is View:
            base = self._fake(args[plan.base])
            # A view of what was made in inference mode was made in it, and no other, wherever it is taken.
            within = base.is_inference()
            with _NOTHING if torch.is_inference_mode_enabled() is within else torch.inference_mode(within):
                return self._class(plan)(self, plan, base.storage_key)
        if kind is Same:
            return args[plan.base]
        if kind is list:
            return [self._build(item, args) for item in plan]
        if kind is tuple:
            return tuple([self._build(item, args) for item in plan])
        return plan

    def _class(self, meta: Any) -> type[FakeTensor]:
        return FakeTensor if self.shape_env is None else fake_class(meta)

    def _fake(self, value: Any) -> FakeTensor:
        return value if isinstance(value, FakeTensor) else self._converter.constant(value)

    def _without_rule(self, func: Any, facts: OperatorFacts, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if facts.composite:
            with self:
                return self.decompose(func, args, kwargs)
        own = _torch.fake_function(func)
        if own is not None:
            context = SizesInData(func, self.shape_env if self.data_dependent else None)
            with self, _torch.fake_context(lambda: context):
                return own(*args, **kwargs)
        if facts.needs_data:
            raise DataDependentError(func)
        functional = facts.functional
        if functional is not None and facts.returns_written and -1 not in facts.returns_written:
            rule, _ = rule_and_facts(functional)
            if rule is not None and len(functional._schema.returns) == len(facts.returns_written):
                outs = {argument.name for argument in facts.written if argument.is_out}
                plan = self._plan(functional, rule, args, {k: v for k, v in kwargs.items() if k not in outs})
                if plan is not NotImplemented:
                    return self._write(func, facts, plan, args, kwargs)
        return self._fall_back(func, args, kwargs)

    def _write(self, func: Any, facts: OperatorFacts, plan: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """An in-place or out= op: check what its functional form would give, answer with the written arguments."""
        targets = [facts.written[number].of(args, kwargs) for number in facts.returns_written]
        resizable = any(argument.is_out for argument in facts.written)
        results = plan if isinstance(plan, (list, tuple)) and type(plan) not in _METAS else [plan]
        for target, result in zip(targets, results, strict=True):
            if facts.reshapes:
                # The tensor takes the metadata, and the storage, of the view that the functional op would give.
                key = self._fake(args[result.base]).storage_key
                made = self._class(result)(self, result, key)
                target.data = made
                target.storage_key = key
                target.laid_out(made)
            elif type(result) in _METAS:
                check_target(func, self._fake(target), result, resizable)
        return targets[0] if len(targets) == 1 else tuple(targets)

    def _fall_back(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        registry.count_missing(func)
        return run_meta_kernel(self, func, args, kwargs)


def check_target(func: Any, target: FakeTensor, result: Any, resizable: bool) -> None:
    """Raise as eager does if a tensor with the metadata `result` cannot be written to `target`."""
    if not same_shape(target.shape, result.size):
        if resizable:
            raise NotImplementedError(f"{func} would resize its out= argument of size {list(target.shape)}")
        raise errors.unlike_target(target.shape, result.size)
    if not torch.can_cast(result.dtype, target.dtype):
        raise errors.uncastable(result.dtype, target.dtype)
