"""The dispatch mode that functionalizes, decomposes and records in one pass.

In: any torch program run on fake tensors under `Tracer`. Out: `Tracer.graph`, an fx graph of functional ATen calls.

Autograd runs above the mode on the fakes themselves, so its own bookkeeping (versions, views, saved tensors) is
eager's. What is functional is the record: every storage has a generation that a write raises; a tensor whose node is
of an older generation is stale and made again from the tensor it is a view of when somebody reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sympy
import torch
from torch import fx
from torch.utils._python_dispatch import _disable_current_modes

from aotgrad import _torch
from aotgrad.arguments import CallArguments, values_of
from aotgrad.errors import Unsupported
from aotgrad.functional_forms import Blocks
from aotgrad.kernels_of_others import KernelsOfOthers
from aotgrad.mutations import MUTATIONS, assignable
from aotgrad.overlaps import crosses, repeats
from aotgrad.recording import Recorder
from aotgrad.restride import layout_of, view_of
from aotgrad.tracked import Tracked, fresh
from aotgrad.views import COMPOSED, ViewStep, base_of, is_view, is_whole, write_back
from aotgrad.zeros import Zeros
from symshapes import (
    NUMBER_DTYPES,
    SYMBOLIC,
    DataDependentError,
    FakeMode,
    FakeTensor,
    InfraMode,
    OperatorFacts,
    ShapeGuard,
    UnbackedError,
    expr_of,
    facts_of,
    inverse_permutation,
    is_dense,
    is_unbacked,
    memory_order,
    require,
    same_layout,
    same_metadata,
    same_size,
)

aten = torch.ops.aten


Table = Mapping[Any, Callable[..., Any]]

COPIES = {aten.clone.default, aten._to_copy.default, aten._unsafe_view.default}
"""Ops whose result is their first argument's value where sizes, strides, dtype and device are the same."""


class Tracer(InfraMode):
    """Records the ATen ops that run under it. Enter it inside its `fake_mode`; see `run`."""

    def __init__(self, fake_mode: FakeMode, table: Table) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.fake_mode = fake_mode
        self.recorder = Recorder()
        self.graph = self.recorder.graph
        self.symbols = self.recorder.symbols
        self.constants: dict[str, torch.Tensor] = {}
        self._table = table
        self._zeros = Zeros()
        self._tracked: dict[int, Tracked] = {}
        self._lifted: dict[int, tuple[torch.Tensor, FakeTensor]] = {}
        env = fake_mode.shape_env
        self._promises: list[ShapeGuard] = [] if env is None else env.runtime_asserts
        self._older = len(self._promises)  # of another trace of the program
        self._kept = 0
        self._others = KernelsOfOthers()
        self._decomposing = False

    # What the program's values are.

    def add_input(self, fake: FakeTensor, name: str, source: str | None = None) -> fx.Node:
        """A placeholder for `fake`."""
        node = self.graph.placeholder(name)
        node.target = node.name  # two inputs may ask for one name
        self.recorder.describe(node, fake, source)
        self._track(fake, node)
        if self.fake_mode.shape_env is not None and not self.recorder.backward:
            # The sizes of tangents are known from the forward, which must not depend on them.
            self.symbols.bind_tensor(node, fake)
        return node

    def add_symbol(self, value: torch.SymInt | torch.SymFloat, name: str) -> fx.Node:
        """A placeholder for a symbolic number."""
        node = self.graph.placeholder(name)
        node.meta["val"] = value
        self.symbols.bind(node, None, value)
        return node

    def tracked(self, tensor: torch.Tensor) -> Tracked:
        """What is known of a tensor. Raises Unsupported for one that the traced program did not make."""
        known = self._tracked.get(id(tensor))
        if known is None:
            if isinstance(tensor, FakeTensor):
                raise Unsupported("a fake tensor that is no input and was made outside the trace")
            known = self._tracked[id(self._lift(tensor))]
        return known

    def node_of(self, tensor: torch.Tensor) -> fx.Node:
        """The node that has the tensor's present value."""
        return self.read(self.tracked(tensor))

    def call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Run a method that makes nodes after the program has run, without autograd."""
        with torch.no_grad(), self.fake_mode:
            return function(*args, **kwargs)

    # The dispatch point.

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        try:
            return self._dispatch(func, args, kwargs or {})
        except Unsupported as refusal:
            refusal.call = refusal.call or self.recorder.running_call()
            raise
        except (DataDependentError, UnbackedError) as error:
            raise Unsupported(
                f"{'the backward of it' if self.recorder.backward else 'it'}: {error}", self.recorder.running_call()
            ) from error

    def _dispatch(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self.fake_mode.is_question(func):
            return self.fake_mode.dispatch(func, args, kwargs)
        checkpoint = self.recorder.checkpoint
        if checkpoint is not None and checkpoint.saves is not None and not self.recorder.kept:
            self.recorder.kept = checkpoint.saves(func, args, kwargs)
            try:
                return self._dispatched(func, args, kwargs)
            finally:
                self.recorder.kept = False
        return self._dispatched(func, args, kwargs)

    def _dispatched(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        # What a decomposition calls stands for the inside of a kernel, which does not go by the dispatcher.
        if self._others and not self._decomposing:
            form = self._others.form(func, args, kwargs)
            if form is not None:
                return self._compute(form, args, kwargs, not facts_of(func).acts)
            if not facts_of(func).composite:
                self._decomposing = True
                try:
                    return self._by_itself(func, args, kwargs)
                finally:
                    self._decomposing = False
        return self._by_itself(func, args, kwargs)

    def _by_itself(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if func is aten._to_copy.default and type(args[0]) in NUMBER_DTYPES:
            dtype = kwargs.get("dtype") or NUMBER_DTYPES[type(args[0])]
            with self:
                return aten.scalar_tensor.default(args[0], dtype=dtype, device=kwargs.get("device") or "cpu")
        if self._zeros.gives(func, args):
            like = func(*args, **kwargs)
            with self:
                return self._zeros.note(aten.full.default(like.shape, 0, dtype=like.dtype, device=like.device))
        decomposition = self._table.get(func)
        if decomposition is not None and (not self._others or self._decomposing):
            env = self.fake_mode.shape_env
            if env is not None and env.has_unbacked:
                # What it is decomposed into need not refuse what it would.
                self.fake_mode.check(func, args, kwargs)
                self.keep_promises()
            with self:
                result = decomposition(*args, **kwargs)
            if result is not NotImplemented:
                if type(result) in (list, tuple) and is_view(func):
                    self._note_several(func, args, kwargs, result)
                return self._of_its_own(result, args) if facts_of(func).fresh else result
        facts = facts_of(func)
        if facts.written:
            return self._effect(func, facts, args, kwargs)
        if facts.views:
            made = self._view(func, args, kwargs)
            self._zeros.note_view(args[0], made)
            return made
        if facts.composite:
            with self:
                return self.fake_mode.decompose(func, args, kwargs)
        return self._compute(func, args, kwargs, not (facts.acts or facts.apart))

    def _of_its_own(self, result: Any, args: tuple[Any, ...]) -> Any:
        """A result that is an argument, or a view of one, as a tensor of its own: autograd would give the argument a history."""
        if type(result) in (list, tuple):
            return type(result)(self._of_its_own(item, args) for item in result)
        if not isinstance(result, FakeTensor):
            return result
        key = result.storage_key
        if not any(isinstance(arg, FakeTensor) and arg.storage_key is key for arg in args):
            return result
        with self:
            return aten.clone.default(result)

    def _effect(self, func: Any, facts: OperatorFacts, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """An op that changes its arguments' data or metadata."""
        functional = facts.functional
        if facts.reshapes:
            if functional is None or not facts_of(functional).aliases:
                raise Unsupported(f"{func} changes a tensor's storage")
            return self._reshape_in_place(functional, args, kwargs)
        if functional is None and facts.composite:
            with self:
                return self.fake_mode.decompose(func, args, kwargs)
        return self._write(func, facts, args, kwargs)

    def _compute(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], pure: bool) -> Any:
        result = func(*args, **kwargs)
        self.keep_promises()
        if func is require:
            return None
        known = self.tracked(args[0]) if func in COPIES and same_metadata(args[0], result) else None
        if known is not None and not (func is aten.clone.default and self._may_change(self.read(known))):
            # A functional graph has values, not tensors: a copy that changes nothing is the value itself.
            self._tracked[id(result)] = fresh(result, self.read(known), known.exact)
        elif isinstance(result, torch.Tensor):
            node, exact = self._record_call(func, args, kwargs, result, pure)
            self._tracked[id(result)] = fresh(result, node, exact)  # type: ignore[arg-type]
        elif isinstance(result, (tuple, list)) and any(isinstance(item, torch.Tensor) for item in result):
            node, exact = self._record_call(func, args, kwargs, result, pure)
            for index, item in enumerate(result):
                if isinstance(item, torch.Tensor):
                    self._track(item, self.recorder.item(node, index), exact)
        elif is_unbacked(result) and not self.symbols.knows(result):
            node, _ = self._record_call(func, args, kwargs, result, pure)
            if isinstance(result, torch.SymFloat) and "defines" in node.meta:
                # The same call once more; that a float equals itself is no fact to learn, for NaN does not.
                return node.meta["val"]
            self._define(node, node, 0, None, result)
        elif result is None and not pure:
            self._record_call(func, args, kwargs, None, pure)
        return result

    def _define(self, node: fx.Node, holder: fx.Node, result: int, dim: int | None, value: Any) -> None:
        """Note the symbol of a number that a call finds in data: of size `dim` of result `result`, or (None) the result.

        By now no fact has taken the symbol's place."""
        (symbol,) = expr_of(value).free_symbols
        defines = node.meta.get("defines", {})
        known = defines.get((result, dim))
        if known is None:
            self.symbols.bind(holder, dim, value)
            node.meta["defines"] = {**defines, (result, dim): symbol}
        else:  # the same call of the same values once more
            assert self.fake_mode.shape_env is not None
            self.fake_mode.shape_env.learn(sympy.Eq(symbol, known))

    def keep_promises(self) -> None:
        """Checks for what the program promised since the last time, before what relies on it."""
        while self._kept < len(self._promises):
            promise = self._promises[self._kept]
            self._kept += 1
            if self._kept <= self._older and not self.symbols.can_tell(promise.expr):
                continue  # of numbers that were found in data then, and now are others
            condition = self.symbols.node_of(promise.expr)
            what = (condition, promise.message, promise.error.__name__, promise.user_line)
            self.recorder.record(require, what, {}, None, None).meta["condition"] = promise.expr

    def _may_change(self, node: fx.Node) -> bool:
        """Whether a value is (part of) an input, which may be another by the time that the backward runs."""
        return not self.recorder.backward and base_of(node).op == "placeholder"

    def _record_call(
        self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any, pure: bool
    ) -> tuple[fx.Node, bool]:
        """Record a call. Its value has the strides of `result` unless an argument's value has others than its fake."""
        arguments = CallArguments(self)
        recorded = arguments.tuple(args)
        named = arguments.dict(kwargs) if kwargs else {}
        value = result
        exact = True
        if arguments.inexact and not pure:
            # A random kernel draws in the order of its argument's memory.
            for argument in args:
                if isinstance(argument, torch.Tensor):
                    self._make_exact(self.tracked(argument))
            recorded = arguments.tuple(args)
        elif arguments.inexact:
            value = func(*values_of(recorded), **values_of(named))
            exact = _same_layouts(value, result)
        node = self.recorder.record(func, recorded, named, (arguments.key, *named) if pure else None, value)
        if self.fake_mode.shape_env is not None:
            self._bind_results(node, value)
        return node, exact

    def _bind_results(self, node: fx.Node, value: Any) -> None:
        """Sizes that an op found out (as nonzero does) are read from its results."""
        for index, item in enumerate(value if isinstance(value, (tuple, list)) else (value,)):
            if not isinstance(item, torch.Tensor):
                continue
            for dim, size in enumerate(item.shape):
                if not isinstance(size, torch.SymInt) or not expr_of(size).is_Symbol:
                    continue
                if not self.symbols.knows(size):
                    holder = node if item is value else self.recorder.item(node, index)
                    self._define(node, holder, index, dim, size)
                elif is_unbacked(size) and not _is_told(expr_of(size), node):
                    # Another call that finds it, of what holds the same: the first may be nobody's, or not in its graph.
                    node.meta["defines"] = {**node.meta.get("defines", {}), (index, dim): expr_of(size)}

    def _view(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        base = self.tracked(args[0] if isinstance(args[0], torch.Tensor) else _of_number(args[0]))
        args = (base.fake, *args[1:])
        result = func(*args, **kwargs)
        self.keep_promises()
        grad = torch.is_grad_enabled()
        if func is aten.as_strided.default:
            offset = args[3] if len(args) > 3 else kwargs.get("storage_offset")
            args = (None, args[1], args[2], base.fake.storage_offset() if offset is None else offset)
            kwargs = {}
            step = ViewStep(func, args[1:], kwargs, None, grad)
            if not self._add_restrided(result, base.storage.root, args):
                self._add_view(result, base.storage.root, step)
            self._tracked[id(result)].seen = base, step
            return result
        if isinstance(result, torch.Tensor):
            self._add_view(result, base, ViewStep(func, args[1:], kwargs, None, grad))
        else:
            for index, item in enumerate(result):
                self._add_view(item, base, ViewStep(func, args[1:], kwargs, index, grad))
        return result

    def _note_several(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], made: Sequence[Any]) -> None:
        """The program made these views by one call. Autograd minds: nobody may write to them."""
        base = self.tracked(args[0])
        for index, item in enumerate(made):
            tracked = self.tracked(item)
            if tracked is not base:
                tracked.seen = base, ViewStep(func, args[1:], kwargs, index, torch.is_grad_enabled())

    def _add_restrided(self, fake: Any, root: Tracked, args: tuple[Any, ...]) -> bool:
        """Make the view `as_strided` of simpler ones if it can be."""
        whole = layout_of(root.fake.shape, root.fake.stride(), root.fake.storage_offset())
        wanted = layout_of(*args[1:])
        make = None if whole is None or wanted is None else view_of(whole, wanted)
        if make is None:
            return False
        with self:
            made = self.tracked(make(root.fake))
        self._tracked[id(fake)] = Tracked(
            fake, made.node, made.storage, made.generation, made.exact, made.parent, made.step
        )
        return True

    def _add_view(self, fake: Any, base: Tracked, step: ViewStep) -> None:
        self.read(base)
        node, exact = self._view_value(fake, base, step)
        self._tracked[id(fake)] = Tracked(fake, node, base.storage, base.storage.generation, exact, base, step)

    def _reshape_in_place(self, functional: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The tensor becomes a view of what it was."""
        target = args[0]
        tracked = self.tracked(target)
        with self:
            view = functional(*args, **kwargs)
        former = self.fake_mode.dispatch(aten.alias.default, (target,), {})
        seen = self.tracked(view)
        self._tracked[id(former)] = tracked
        tracked.fake = former
        self._tracked[id(target)] = seen
        seen.fake = target
        for node in self.graph.nodes:
            node.meta["val"] = _replaced(node.meta["val"], target, former)
        _torch.set_layout(target, view)
        return target

    def _view_value(self, fake: FakeTensor, base: Tracked, step: ViewStep) -> tuple[fx.Node, bool]:
        """The node of a view of `base`, whose node is current."""
        func = step.op
        if is_whole(fake, base.fake):
            return base.node, base.exact
        if func is aten.as_strided.default:
            self._make_exact(base)
        if not base.exact and func is aten.view.default:
            return self._reshape(base.node, fake, tuple(fake.shape))
        source, args = base.node, step.args
        if func in COMPOSED and source.target is func:
            source, outer = COMPOSED[func](source, args)
            if outer is None:
                return source, base.exact or same_layout(source.meta["val"], fake)
            args = outer
        arguments = CallArguments(self)
        recorded = (source, *arguments.tuple(args))
        named = arguments.dict(step.kwargs) if step.kwargs else {}
        value: Any = fake
        if step.index is not None or not base.exact:
            value = func(source.meta["val"], *values_of(recorded[1:]), **values_of(named))
        node = self.recorder.record(func, recorded, named, (source, arguments.key, *named), value)
        if step.index is not None:
            node = self.recorder.item(node, step.index)
        return node, base.exact or same_layout(node.meta["val"], fake)

    def _reshape(self, node: fx.Node, fake: FakeTensor, size: Any) -> tuple[fx.Node, bool]:
        """A view in the program of a value that may have strides which allow none."""
        value: Any = torch.reshape(node.meta["val"], size)
        if value.storage_key is not node.meta["val"].storage_key:
            copied = torch.clone(node.meta["val"], memory_format=torch.contiguous_format)
            named = {"memory_format": torch.contiguous_format}
            node = self.recorder.record(aten.clone.default, (node,), named, (node, "contiguous"), copied)
        arguments = CallArguments(self)
        recorded = (node, *arguments.tuple((size,)))
        made = self.recorder.record(aten.view.default, recorded, {}, (node, arguments.key), value)
        return made, same_layout(value, fake)

    def _with_layout(self, node: fx.Node, fake: FakeTensor) -> fx.Node:
        """The value of `node` with the strides of `fake`."""
        if same_layout(node.meta["val"], fake):
            return node
        if is_dense(fake):
            return self._permuted(node, memory_order(fake))
        arguments = CallArguments(self)
        (size, stride) = arguments.tuple((tuple(fake.shape), tuple(fake.stride())))
        named = {"dtype": fake.dtype, "device": fake.device}
        with torch.no_grad():
            value = torch.empty_strided(fake.shape, fake.stride(), dtype=fake.dtype, device=fake.device)
        key = (arguments.key, fake.dtype, fake.device)
        empty = self.recorder.record(aten.empty_strided.default, (size, stride), named, key, value)
        return self.recorder.record(aten.copy.default, (empty, node), {}, (empty, node), value)

    def _permuted(self, node: fx.Node, order: list[int]) -> fx.Node:
        """The value of `node` in memory whose dimensions lie in the given order."""
        value = node.meta["val"].detach().permute(order)
        node = self.recorder.record(aten.permute.default, (node, order), {}, (node, *order), value)
        value = torch.clone(value, memory_format=torch.contiguous_format)
        named = {"memory_format": torch.contiguous_format}
        node = self.recorder.record(aten.clone.default, (node,), named, (node, "contiguous"), value)
        back = inverse_permutation(order)
        return self.recorder.record(aten.permute.default, (node, back), {}, (node, *back), value.permute(back))

    def _make_exact(self, tracked: Tracked) -> None:
        if not tracked.exact:
            tracked.node, tracked.exact = self._with_layout(self.read(tracked), tracked.fake), True

    def with_layout_of(self, tensor: torch.Tensor) -> fx.Node:
        """The node of the tensor's present value, in the strides that the program sees."""
        tracked = self.tracked(tensor)
        node = self.read(tracked)
        return node if tracked.exact else self._with_layout(node, tracked.fake)

    def clone_of(self, node: fx.Node, keep_layout: bool) -> fx.Node:
        """A copy of the value of `node` in storage of its own, in the same strides if `keep_layout`.

        Raises Unsupported if those are strides that no tensor with storage of its own can have.
        """
        value = node.meta["val"]
        made = self.graph.call_function(aten.clone.default, (node,))
        self.recorder.describe(made, torch.clone(value.detach()), self.recorder.source)
        if not keep_layout or same_layout(made.meta["val"], value):
            return made
        if any(same_size(stride, 0) for stride in value.stride()):
            raise Unsupported("an expanded output whose value is another tensor's")
        return self._with_layout(made, value)

    # Writes.

    def _write(self, func: Any, facts: OperatorFacts, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if facts.functional is None and func not in MUTATIONS and not facts.reshapes:
            return self._write_blocks(func, facts, args, kwargs)
        targets = [argument.of(args, kwargs) for argument in facts.written]
        single = [target for target in targets if isinstance(target, FakeTensor)]
        if any(map(repeats, single)) or any(
            crosses(target, arg) for target in single for arg in args if isinstance(arg, FakeTensor)
        ):
            # Eager refuses most such writes, and some of one or of no element not: it decides.
            raise Unsupported(f"{func} on elements that are one in memory")
        mutation = MUTATIONS.get(func)
        with self:
            if mutation is not None:
                results = [mutation(*args, **kwargs)]
            elif facts.functional is not None:
                outs = {w.name for w in facts.written if w.is_out}
                computed = facts.functional(*args, **{name: v for name, v in kwargs.items() if name not in outs})
                several = isinstance(computed, (tuple, list)) and not (len(targets) == 1 and facts.written[0].is_list)
                results = list(computed) if several else [computed]
            else:
                raise Unsupported(f"{func} has no functional form")
        if any(w.is_list for w in facts.written):
            self._refuse_crossing(func, targets, args)
        extra = len(results) - len(targets)
        for argument, target, result in zip(facts.written, targets, results[extra:], strict=True):
            if target is None:
                continue
            pairs = zip(target, result, strict=True) if argument.is_list else ((target, result),)
            for one, value in pairs:
                self._assign(func, one, value, argument.is_out)
            if facts.counts_each and argument.is_list:
                _torch.increment_versions(target)
        new = iter(results[:extra])
        returned = [targets[index] if index >= 0 else next(new) for index in facts.returns_written]
        return (returned[0] if len(returned) == 1 else tuple(returned)) if returned else None

    def _write_blocks(self, func: Any, facts: OperatorFacts, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """An op that comes without a functional form, over the blocks of memory that its tensors lie in."""

        def root(tensor: torch.Tensor) -> FakeTensor:
            return self.tracked(tensor).storage.root.fake

        blocks = Blocks(func, facts, args, kwargs, root)
        for block, is_written in zip(blocks.tensors, blocks.layout.written, strict=True):
            if is_written and repeats(block):
                raise Unsupported(f"{func} on elements that are one in memory")
            self._make_exact(self.tracked(block))
        forms = blocks.forms()
        with self:
            computed = forms.functional(*blocks.tensors, blocks.windows, *blocks.others)
        several = isinstance(computed, (tuple, list))
        results = list(computed) if several else [computed]
        written = [block for block, is_written in zip(blocks.tensors, blocks.layout.written, strict=True) if is_written]
        for block, value in zip(written, results[forms.results :], strict=True):
            self._assign(func, block, value, False)
        returned = results[: forms.results]
        return (returned[0] if len(returned) == 1 else tuple(returned)) if returned else None

    def _refuse_crossing(self, func: Any, targets: list[Any], args: tuple[Any, ...]) -> None:
        """Eager writes to the tensors of a list one by one, so that later ones may read what was written.

        With the tensor that is written itself at its place (`x *= x` for each) the call reads what was there before.
        """
        groups = [each if isinstance(each, list) else [each] for each in targets if each is not None]
        written = [id(self.tracked(t).storage) for group in groups for t in group]
        lists = [a if isinstance(a, list) else [a] for a in args if not any(a is g for g in targets)]
        own = targets[0] if len(targets) == 1 and isinstance(targets[0], list) else []
        others = [t for a in lists for place, t in enumerate(a) if len(a) != len(own) or t is not own[place]]
        read = {id(self.tracked(t).storage) for t in others if isinstance(t, torch.Tensor)}
        if len(set(written)) < len(written) or not read.isdisjoint(written):
            raise Unsupported(f"{func} on tensors that share storage")

    def _assign(self, func: Any, target: torch.Tensor, value: torch.Tensor, is_out: bool) -> None:
        with self:
            value = assignable(func, target, value, is_out)
        self.fake_mode.note_write(target)
        link: Tracked | None = self.tracked(target)
        while link is not None:
            if repeats(link.fake):  # what is written is there at other places of it, too
                raise Unsupported(f"{func} on elements that are one in memory")
            link = link.parent
        child = written = self.tracked(target)
        node = self.node_of(value)
        storage = child.storage
        child.node = node
        child.exact = same_layout(node.meta["val"], child.fake)
        child.generation = storage.generation  # already the new value: nobody may make it again below
        chain = [child]
        while child.parent is not None:
            parent, step = child.parent, child.step
            assert step is not None
            if is_whole(child.fake, parent.fake):
                parent.node, parent.exact, parent.generation = child.node, child.exact, storage.generation
            else:
                self.read(parent)
                if step.op is aten.as_strided.default:
                    self._make_exact(parent)
                with self:
                    whole = write_back(step, parent.fake, child.fake)
                parent.node = self.node_of(whole)
                parent.exact = same_layout(parent.node.meta["val"], parent.fake)
            chain.append(parent)
            child = parent
        storage.generation += 1
        storage.written, storage.wrote = True, self.recorder.running_call()
        storage.counted = storage.counted or not written.is_apart
        for link in chain:
            link.generation = storage.generation

    def note_data(self, tensor: Any) -> None:
        """The program has read a tensor's `data`, which is this one."""
        known = self._tracked.get(id(tensor))
        if known is not None:
            known.apart = True

    def read(self, tracked: Tracked) -> fx.Node:
        """The node of the tensor's present value."""
        if tracked.generation != tracked.storage.generation:
            assert tracked.parent is not None and tracked.step is not None
            self.read(tracked.parent)
            tracked.node, tracked.exact = self._view_value(tracked.fake, tracked.parent, tracked.step)
            tracked.generation = tracked.storage.generation
        return tracked.node

    def _track(self, fake: Any, node: fx.Node, exact: bool = True) -> None:
        self._tracked[id(fake)] = fresh(fake, node, exact)

    def _lift(self, tensor: torch.Tensor) -> FakeTensor:
        """A real tensor that the program has at hand becomes a constant of the graph."""
        held = self._lifted.get(id(tensor))
        if held is not None:
            return held[1]
        if tensor.requires_grad and torch.is_grad_enabled():
            raise Unsupported("a tensor that requires grad and is no input of the graph")
        fake = self.fake_mode.from_tensor(tensor)
        if tensor.numel() == 1 and tensor.device.type == "cpu":
            with _disable_current_modes():
                number = tensor.item()
            named = {"dtype": tensor.dtype, "device": tensor.device}
            key = ((type(number), repr(number)), tensor.dim(), tensor.dtype)
            node = self.recorder.record(aten.full.default, ([1] * tensor.dim(), number), named, key, fake)
        else:
            name = f"_tensor_constant{len(self.constants)}"
            self.constants[name] = tensor
            node = self.graph.create_node("get_attr", name, (), {})
            self.recorder.describe(node, fake, self.recorder.source)
        self._track(fake, node)
        self._lifted[id(tensor)] = (tensor, fake)
        return fake


def _is_told(symbol: Any, call: fx.Node) -> bool:
    """Whether an argument of a call has a symbol among its sizes, or is a number of it."""
    values = [node.meta.get("val") for node in call.all_input_nodes]
    numbers = [n for value in values for n in (value.shape if isinstance(value, torch.Tensor) else (value,))]
    return any(symbol in expr_of(number).free_symbols for number in numbers if isinstance(number, SYMBOLIC))


def _replaced(value: Any, old: Any, new: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return type(value)(_replaced(item, old, new) for item in value)
    return new if value is old else value


def _of_number(value: Any) -> torch.Tensor:
    """A number of the program's that autograd holds as a tensor, and the dispatcher hands over as a number: as a tensor."""
    if type(value) not in NUMBER_DTYPES:
        raise Unsupported(f"a view of a {type(value).__name__}")
    with _disable_current_modes():
        return torch.scalar_tensor(value, dtype=NUMBER_DTYPES[type(value)], device="cpu")


def _same_layouts(value: Any, result: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return same_layout(value, result)
    return all(
        same_layout(one, other)
        for one, other in zip(value, result, strict=True)
        if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor)
    )
