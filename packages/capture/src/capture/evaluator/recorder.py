"""Recording torch operations: one graph node, and the same call on fakes for the result's metadata."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, NoReturn, TypeGuard

import torch
from torch import fx

from capture import _torch, config, tensor_readers
from capture._native import address
from capture.errors import EvaluateAgain, NotConstant, SkipFrame, Unsupported
from capture.graph import GraphBuilder, takes_other_way
from capture.guards import GlobalState, GuardKind, ShapePredicate, Size, TensorMeta
from capture.plain_tensors import like_plain, plain_of
from capture.settings import READ_BY, READ_BY_PRODUCTS, SETTERS, SETTINGS, in_force, read_by
from capture.sources import Applied, Const, Source
from capture.tensor_attributes import gradient_of, is_leaf
from capture.variables.assumptions import Guards
from capture.variables.autograd_history import AutogradHistory
from capture.variables.autograd_state import CALLED
from capture.variables.base import Args, Interpreter, Kwargs, Variable
from capture.variables.constants import CONSTANT_TYPES, Constant
from capture.variables.mappings import Dict
from capture.variables.numbers import Symbolic
from capture.variables.placeholders import resolved
from capture.variables.program_state import Builder
from capture.variables.read_again import ReadAgain
from capture.variables.sequences import List, Tuple
from capture.variables.slices import Slice
from capture.variables.tensors import Tensor
from capture.variables.wrappers import AskedBelow
from symshapes import (
    SYMBOLIC,
    DataDependentError,
    FakeMode,
    FakeTensor,
    UnbackedError,
    going_on,
    is_open,
    is_unbacked,
    taking_symbols,
)

from .alike_lengths import held_alike, starts_again
from .below_autograd import dispatched
from .dynamic import DynamicSizes
from .errors import ProgramErrors
from .handled import may_be_handled
from .inference import InferenceBlocks
from .known_results import KnownResults, acts_in_place
from .number_ranges import NumberRanges
from .one_piece import require_history, require_no_input_hooks
from .places import differentiable
from .refusals import Refusals
from .scalars import ScalarTensors
from .side_effects import SideEffects
from .state import EvaluationState
from .switches import Switches
from .trials import is_programs_own, refusal
from .written_inputs import WrittenInputs

#: The classes of tensors that are inputs as they are.
_PLAIN_TENSORS = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
#: Questions whose answers follow from what is guarded of tensors.
_FOLLOWS = frozenset(
    {
        "size", "stride", "dim", "ndimension", "numel", "nelement", "element_size", "is_contiguous", "get_device",
        "is_floating_point", "is_complex", "is_signed", "is_conj", "is_neg", "is_same_size", "is_inference", "type",
        "result_type", "promote_types", "is_coalesced", "dense_dim", "sparse_dim", "__len__", "_is_zerotensor",
        "is_non_overlapping_and_dense", "broadcast_shapes", "is_tensor", "eq", "ne",
        "_has_compatible_shallow_copy_type",
    }
)  # fmt: skip
#: What torch's C++ says of symbolic sizes where it takes none: also of tensors that Python knows nothing of, which it asks for them.
_NO_SYMBOLS = ("on tensor with symbolic sizes", "no interpreter set")
#: Among what an evaluation has found out: that it goes further with the numbers that tensors hold.
_TELLS = "numbers in tensors"
#: Methods that ask a tensor of several elements for them.
_READING = frozenset({"item", "tolist"})
#: The same: that it tells which tensors are views.
_VIEWS = "views"
#: Of these what holds for most sizes need not hold for 0 and 1.
_LAYOUTS = frozenset({"is_contiguous", "is_non_overlapping_and_dense"})
#: In the place of a context that need not be entered, which costs more than to ask: each tensor from outside is an input once.
_NOTHING = nullcontext()


class GraphRecorder:
    """The graph of one attempt and the fakes of its values. ``dynamic_sizes`` says which numbers are symbols, ``refusals`` what is not recorded."""

    def __init__(
        self,
        m: Interpreter,
        state: EvaluationState,
        effects: SideEffects,
        errors: ProgramErrors,
        guards: Guards,
        builder: Builder[Variable],
        dynamic_sizes: DynamicSizes,
        refusals: Refusals,
    ) -> None:
        self._m = m
        self._state = state
        self._effects = effects
        self._errors = errors
        self._guards = guards
        self._builder = builder
        self.graph = GraphBuilder()
        self.dynamic_sizes = dynamic_sizes
        self.fake_mode = FakeMode(self.dynamic_sizes.env, data_dependent=config.capture_data_dependent)
        self.graph.unsaid = self.fake_mode.unsaid
        self._known_results = KnownResults(self.fake_mode)
        self._known_results.takes_views &= _VIEWS not in effects.ran_ahead
        #: The variables of tensors, by the identity of their fakes.
        self.fakes: dict[int, Tensor] = {}
        self.written_inputs = WrittenInputs(guards)
        self._numbers: dict[tuple[Any, ...], Symbolic] = {}
        self._number_inputs: dict[Source, Symbolic] = {}
        #: Torch's settings where the frame begins: those that a graph may change, and all.
        self.entered_with = in_force()
        self.settings_before = GlobalState.now()
        #: Those that operations in the graph choose kernels by.
        self._read_settings: set[str] = set()
        #: How deep autocast is nested.
        self.autocast_nesting = 0
        #: How deep within classes that are asked below autograd.
        self._below = 0
        #: The calls that were recorded as the program made them.
        self.recorded: set[fx.Node] = set()
        #: Counts changes of torch's settings.
        self.settings_set = 0
        #: Counts the program's questions how often tensors were written to.
        self.versions_told = 0
        #: Counts the program's questions whether gradients are computed.
        self.asked_grad = 0
        self.autocast_nesting_change = 0
        #: Whether any call changes torch's settings.
        self.sets_state = False
        self.refusals = refusals
        self._ranges = NumberRanges()
        self._scalars = ScalarTensors(guards, self.fakes, dynamic_sizes.is_steady, dynamic_sizes.is_settled)
        self.autograd = AutogradHistory()
        self.read_again = ReadAgain(refusals)
        #: Whether a result is anywhere but on the host, for which a call waits.
        self.elsewhere = False
        #: By storage: the `if` whose arms hand it on, so that more than the evaluation knows of may be in it, and how often it was written to before.
        self._handed_on: dict[object, tuple[Any, int]] = {}
        #: By storage: the `if` whose arms made it, each at a place of its own in its memory, or after writes of its own.
        self._placed_by: dict[object, Any] = {}
        self.switches = Switches()
        self.inference = InferenceBlocks()
        #: An operator refused what it was given: eager would raise, too.
        self.refused_by_operator = False
        #: Tensors whose place in autograd's graph was asked for, and at which step; see `places`.
        self.placed: list[tuple[int, fx.Node]] = []
        #: The first step at which only the run can tell whether a call copies (see `FakeMode.doubtful_copies`); 0 for none.
        self.doubtful = 0

    def release(self) -> None:
        """Let go of the graph, and the fakes' autograd graphs with it, which hide cycles from the garbage collector."""
        self.switches.undo()
        self.inference.undo()
        self.graph = GraphBuilder()
        self.fakes.clear()
        self.written_inputs.release()
        self._known_results.clear()
        self._numbers.clear()
        self._number_inputs.clear()
        self.recorded.clear()
        self.autograd.release()
        self.fake_mode.forget_tensors()  # `torch.utils.swap_tensors` takes none to which somebody has a weak reference

    def input(self, value: torch.Tensor, source: Source) -> tuple[fx.Node, Any]:
        """A tensor from outside becomes an input of the graph: its node and its fake. Guards its metadata."""
        gradient = gradient_of(value) if is_leaf(value) else None
        if gradient is not None and torch.Tensor.size(gradient) != torch.Tensor.size(value):
            # No fake could be given it.
            raise Unsupported("a tensor whose gradient has other sizes, since its data was replaced")
        is_plain = type(value) in _PLAIN_TENSORS
        place = source if is_plain else Applied(source, plain_of, 0)
        fake = self.outside(value, value if is_plain else like_plain(value), source)
        self.elsewhere |= fake.device.type != "cpu"
        return self.graph.placeholder(place, fake, self._state.where()), fake

    def outside(self, value: torch.Tensor, like: torch.Tensor, source: Source) -> Any:
        """The fake of a tensor from outside, of whose metadata a plain one is. Guards it, but for sizes that vary."""
        sizes_known = self.dynamic_sizes
        policy, vary = sizes_known.policy(value, source), sizes_known.symbolic_strides(value, source)
        try:
            # One from outside is of no level, and was not made in a block of the frame's.
            with _torch.beneath_levels() if _torch.in_transform() else _NOTHING, self.inference.outside:
                fake = self.fake_mode.from_tensor(
                    like,
                    source=sizes_known.name(source),
                    policy=policy,
                    alike=None if policy is None else sizes_known.alike(source, len(policy)),
                    symbolic_strides=vary,
                )
        except NotImplementedError as error:
            # A wrapper of a function transform (vmap, grad): its frames are the interpreter's.
            raise SkipFrame(f"a tensor without a storage of its own ({error})") from error
        self.inference.given(value, fake, self.fake_mode.written)
        if policy is not None or any(vary):
            sizes_known.note(fake, source)
        if not isinstance(source, Const):
            sizes = tuple(s if type(s) is int else None for s in fake.shape)
            strides = tuple(s if type(s) is int else None for s in fake.stride())
            self._guards.add(source, GuardKind.TENSOR, TensorMeta.of(value, sizes=sizes, strides=strides))
        return fake

    def handed_on(self, key: Any, storages: Iterable[object]) -> None:
        """What lies there may be something else as well from here on, as an `if` decides that only the run can tell."""
        for storage in storages:
            self._handed_on.setdefault(storage, (key, self.fake_mode.written.get(storage, 0)))

    def placed_by(self, key: Any, tensor: Tensor) -> None:
        """Where a tensor begins in its memory, and how often that was written to, an `if` decides that only the run can tell."""
        self._placed_by[tensor.fake.storage_key] = key  # type: ignore[attr-defined]

    def keeps_apart(self, tensor: Tensor, op: str, target: Any) -> None:
        """Evaluate again where a call changes a tensor in place that an `if` handed on, or acts on its place in autograd's graph."""
        changes = acts_in_place(op, target) or target in CALLED
        if self._handed_on and changes and tensor.node is not None:
            key, _ = self._handed_on.get(_torch.inside(tensor.fake).storage_key, (None, 0))
            if key is not None:
                self.without_arms(key)

    def check_handed_on(self) -> None:
        """Evaluate again where what an `if` handed on was written to since."""
        unsaid = set(map(address, self.fake_mode.unsaid)) if self._handed_on else ()
        for storage, (key, count) in self._handed_on.items():
            if self.fake_mode.written.get(storage, 0) != count or address(storage) in unsaid:
                self.without_arms(key)

    def without_arms(self, key: Any) -> NoReturn:
        """Evaluate again with a break at an `if`."""
        self._effects.ran_ahead.add(key)
        raise EvaluateAgain("what the arms of an if hand on is more than a value")

    def know(self, tensor: Tensor) -> None:
        """A variable is the one that a fake stands for."""
        self.fakes[address(tensor.fake)] = tensor
        self.written_inputs.met(tensor)

    def real_tensor(self, node: fx.Node) -> torch.Tensor | None:
        """The tensor that an input was at this capture; None for a number."""
        found = self.fakes.get(address(node.meta["val"]))
        return None if found is None else found.value

    def number_input(self, value: int | float, source: Source) -> Variable | None:
        """A number from outside that is not the same each time becomes an input of the graph; None for one that is."""
        found = self._number_inputs.get(source)
        if found is None:
            symbol = self.dynamic_sizes.number(value, source)
            if symbol is None:
                return None
            self._guards.add(source, GuardKind.TYPE, type(value))
            found = self._number_inputs[source] = self._symbolic_input(symbol, source)
        return found

    def size_input(self, size: torch.SymInt, source: Source) -> Variable:
        """A size of a tensor from outside, of which the graph holds nothing else."""
        found = self._number_inputs.get(source)
        if found is None:
            found = self._number_inputs[source] = self._symbolic_input(size, source)
        return found

    def _symbolic_input(self, symbol: Any, source: Source) -> Symbolic:
        made = Symbolic(self.graph.placeholder(source, symbol, self._state.where()), symbol)
        made.source = source
        return made

    def takes_no_symbols(self) -> None:
        """What is evaluated takes no sizes that vary: another attempt has none."""
        self.dynamic_sizes.refused = True

    @property
    def extent(self) -> tuple[int, int]:
        """How many calls and inputs the graph has, and how many tensors were met."""
        return len(self.graph.graph.nodes), len(self.fakes)

    @property
    def acts(self) -> bool:
        """Whether a call in the graph does more than give results, as drawing random numbers."""
        return any("effect" in node.meta for node in self.graph.graph.nodes)

    def has_tensor(self, variable: Variable) -> bool:
        """Whether a tensor is somewhere in an argument."""
        value = variable.realize(self._m)
        return isinstance(value, Tensor) or any(map(self.has_tensor, value.contents(self._m)))

    def note_offset(self, tensor: Tensor) -> None:
        """Where a tensor begins in its storage is asked for: that of a view follows from that of what it is a view of."""
        self._note_offsets({_torch.inside(tensor.fake).storage_key})

    def _note_offsets(self, storages: Collection[object]) -> None:
        for storage in storages:
            self._require_told_place(storage)
        for other in list(self.fakes.values()):
            if other.value is None or other.source is None:
                continue
            offset, source = other.fake.storage_offset(), other.source
            if type(offset) is not int:
                continue
            if other.fake.storage_key in storages:  # type: ignore[attr-defined]
                at = ShapePredicate((Size(source, "offset"),), ("offset",), f"offset == {offset}")
                self._guards.add(None, GuardKind.SHAPE, at)

    def _require_told_place(self, storage: object) -> None:
        """Evaluate again where an `if` decides where in its memory a tensor is, and how often that was written to."""
        key = self._handed_on[storage][0] if storage in self._handed_on else self._placed_by.get(storage)
        if key is not None:
            self.without_arms(key)

    def note_places(self, *variables: Variable) -> None:
        """The program acts on these tensors' places in autograd's graph, or on those of tensors within."""
        for variable in variables:
            value = variable.realize(self._m)
            if isinstance(value, Tensor):
                value.as_argument(self._m)  # raises where the graph has none
                self.placed.append((self._state.step, value.node))
            self.note_places(*value.contents(self._m))

    def record(self, op: str, target: Any, args: Args, kwargs: Kwargs) -> Variable:
        """Add one call. ``op`` is ``"call_function"`` or ``"call_method"``; the result is a variable."""
        try:
            positional = [a.realize(self._m).as_argument(self._m) for a in args]
            named = {k: v.realize(self._m).as_argument(self._m) for k, v in kwargs.items()}
        except NotConstant as error:
            raise Unsupported(f"argument of {_name(target)}: {error}") from None
        except AskedBelow:
            return self._dispatched(getattr(torch.Tensor, target) if op == "call_method" else target, args, kwargs)
        fake_args = [p[1] for p in positional]
        fake_kwargs = {k: p[1] for k, p in named.items()}
        if self._m.modes.active:
            told = self._m.modes.answer(_function(op, target, fake_args), args, kwargs)
            if told is not None:
                return told
        if self._below and torch.is_grad_enabled() and differentiable((*fake_args, *fake_kwargs.values())):
            raise Unsupported(
                f"{_name(target)} of what requires gradients, for a tensor subclass that is asked below autograd"
            )
        if fake_kwargs.get("requires_grad") is True:
            made = self.record(op, target, args, {k: v for k, v in kwargs.items() if k != "requires_grad"})
            return made.method(self._m, "requires_grad_", [], {})
        if self._handed_on and args and isinstance(first := args[0].realize(self._m), Tensor):
            self.keeps_apart(first, op, target)
        tells = _TELLS in self._effects.ran_ahead
        if tells or self._scalars.some_are_made:
            self._tell_numbers((*fake_args, *fake_kwargs.values()), tells, op == "call_method" and target in _READING)
        effects, writes, logged = self.fake_mode.effects, self.fake_mode.writes, len(self.fake_mode.write_log)
        lasting, risks, draws = self.fake_mode.lasting, self.fake_mode.risks, self.fake_mode.draws
        promised, unbacked = len(self.dynamic_sizes.env.runtime_asserts), self.dynamic_sizes.env.unbacked_count
        try:
            result = self._run_on_fakes(op, target, fake_args, fake_kwargs)
        except Unsupported as problem:
            if held_alike(self._m, problem.__cause__, args):
                return self.record(op, target, args, kwargs)
            if not (isinstance(problem.__cause__, TypeError) and any(map(_is_condition, (*args, *kwargs.values())))):
                raise
            # It takes a bool, and no condition: which one it is, is asked.
            self.refused_by_operator = False
            decided = [self._decided(arg) for arg in args], {name: self._decided(arg) for name, arg in kwargs.items()}
            return self.record(op, target, *decided)
        if self.fake_mode.numbers_read:
            return self._record_with_numbers(op, target, args, kwargs, result)
        if self.fake_mode.counted_from_start:
            self._note_offsets(self.fake_mode.counted_from_start)
        promises = len(self.dynamic_sizes.env.runtime_asserts) != promised
        acts, wrote = self.fake_mode.effects != effects, self.fake_mode.writes != writes
        if wrote:
            self.inference.written(self.fake_mode.written)
            self.read_again.written(self.fake_mode.written)
            self.written_inputs.note(self.fake_mode.write_log[logged:])
        plain = type(result) is not FakeTensor and self._is_plain(result)
        if plain and not acts:
            if promises:
                raise Unsupported(f"{_name(target)} is a constant unless it raises, which only the run can tell")
            self._require_told(target, args, fake_args, result)
            return self._builder.from_python(result)
        refused = self.refusals.reason(target, fake_args, fake_kwargs, result)
        caught = False
        if refused is None and (self._errors.handled is not None or self._state.may_catch()):
            self._require_caught(target, promises)
            caught = promises
            refused = self._refused_by_kernel(op, target, fake_args, fake_kwargs)
        if refused is not None:
            raise Unsupported(refused)
        self._ranges.require(_function(op, target, fake_args), fake_args, fake_kwargs, result)
        fx_args = tuple([p[0] for p in positional])
        self._effects.left_behind()
        if address(target) in READ_BY:
            self._guard_settings(read_by(target, (*fake_args, *fake_kwargs.values())))
        if self.fake_mode.multiplied:
            self._guard_settings(READ_BY_PRODUCTS)
        node = self.graph.call(op, target, fx_args, {k: p[0] for k, p in named.items()}, self._state.where())
        node.meta["step"] = self._state.step
        self.recorded.add(node)
        if acts:
            node.meta["effect"] = "write" if wrote else "other"
            node.meta.update(lasts=self.fake_mode.lasting != lasting, draws=self.fake_mode.draws != draws)
        if caught:
            node.meta["caught"] = node.meta["risk"] = True
        elif self.fake_mode.risks != risks:
            node.meta["risk"] = (
                self._errors.handled is not None
                or takes_other_way(node)
                or may_be_handled(self._state.frames, anything=is_programs_own(_function(op, target, fake_args)))
            )
        if self.dynamic_sizes.env.unbacked_count != unbacked:
            self._scalars.note_numbers([fake_args, fake_kwargs])
        effect = "" if not acts else "write" if wrote else "other"
        self._scalars.recorded(target, fake_args, fake_kwargs, result, effect)
        return self._builder.from_python(result) if plain else self._wrap_result(node, result)

    def _record_with_numbers(self, op: str, target: Any, args: Args, kwargs: Kwargs, result: Any) -> Variable:
        """The call was made on fakes, and read numbers that tensors hold: add it with these in the tensors' places."""
        read, self.fake_mode.numbers_read = self.fake_mode.numbers_read, []
        stale = [fake for fake in read if not self._scalars.keep(fake)]
        if stale:
            for fake in stale:
                fake.number = None
            return self.record(op, target, args, kwargs)
        if self._is_plain(result):
            return self._builder.from_python(result)
        held = {address(fake): fake.number[1] for fake in read}
        named = {name: self._with_numbers(arg, held) for name, arg in kwargs.items()}
        return self.record(op, target, [self._with_numbers(arg, held) for arg in args], named)

    def _require_told(self, target: Any, args: Args, fake_args: list[Any], result: Any) -> None:
        """Raise ``Unsupported`` where a call gave a plain value on fakes that real tensors may answer otherwise."""
        if result is False and _name(target) in _LAYOUTS and any(map(_may_be_short, fake_args)):
            raise Unsupported(f"{_name(target)} of a tensor of which only the run can tell whether its sizes are 1")
        if _name(target) not in _FOLLOWS and any(map(self.has_tensor, args)):
            raise Unsupported(f"{_name(target)}, whose answer is not in a tensor's metadata")

    def _require_caught(self, target: Any, promises: bool) -> None:
        """Raise ``Unsupported`` where the program handles what a call may raise, and would not be given it there."""
        if promises and not self._raises_anyway():
            raise Unsupported(f"{_name(target)} may raise, which only the run can tell, where the program handles it")
        if self._m.levels.inside:
            raise Unsupported("an operation within a function transform, where the program handles what it may raise")

    def _guard_settings(self, read: Iterable[str]) -> None:
        """Guard those that an operation in the graph chooses kernels by."""
        if not self._read_settings.issuperset(read):
            self._read_settings.update(read)
            state = self.settings_before.that_count(self._read_settings)
            self._guards.replace(None, GuardKind.GLOBAL_STATE, state)

    def _dispatched(self, function: Callable[..., Any], args: Args, kwargs: Kwargs) -> Variable:
        """What a call with tensors comes to whose classes are asked below autograd."""
        told = self._m.modes.answer(function, args, kwargs) if self._m.modes.active else None
        return told or dispatched(self._m, function, args, kwargs, follows=_name(function) in _FOLLOWS)

    @property
    def is_below_autograd(self) -> bool:
        """Whether a class is being asked below autograd."""
        return self._below > 0

    @contextmanager
    def as_by_numbers(self) -> Iterator[None]:
        """Meanwhile torch decides by sizes as it does by plain numbers, each decision guarded."""
        env = self.dynamic_sizes.env
        before, env.exact = env.exact, True
        try:
            yield
        finally:
            env.exact = before

    @contextmanager
    def below_autograd(self) -> Iterator[None]:
        """Meanwhile a class is asked below autograd, which follows nothing of what it does."""
        self._below += 1
        try:
            yield
        finally:
            self._below -= 1

    def _raises_anyway(self) -> bool:
        """Whether the program's handlers only raise something else: then the frame may start again where the graph raises."""
        return self._errors.handled is None and not self.elsewhere and starts_again(self._m)

    def check_views(self) -> None:
        """Evaluate again where a write to a view is to count as one to what it is a view of, or the other way round, and was not."""
        if self.fake_mode.wrote_apart:
            self._need_views()

    def _need_views(self) -> None:
        """Whether a tensor is a view comes to count: evaluate again with all of them, if some are not."""
        if self._known_results.gave_views:
            self._effects.ran_ahead.add(_VIEWS)
            raise EvaluateAgain("views that are none")

    def _decided(self, argument: Variable) -> Variable:
        return Constant(argument.specialise(self._m)) if _is_condition(argument) else argument

    def _refused_by_kernel(self, op: str, target: Any, args: list[Any], kwargs: dict[str, Any]) -> str | None:
        """Why a call that a handler of the program surrounds is not for a graph, which would raise outside of it."""
        words = refusal(_function(op, target, args), args, kwargs)
        return None if words is None else f"{_name(target)} raises {words}"

    def _run_on_fakes(self, op: str, target: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        given = args
        call = None if self._m.levels.inside else self._known_results.call(op, target, given, kwargs)
        if call is not None:
            known = self._known_results.find(call, given)
            if known is not None:
                return known
        function: Callable[..., Any] = getattr(args[0], target) if op == "call_method" else target
        if op == "call_method":
            args = args[1:]
            if target == "detach_":  # which torch refuses for views
                self._need_views()
        elif _name(target) == "detach_":
            self._need_views()
        copies, writes = self.fake_mode.doubtful_copies, self.fake_mode.writes
        told = len(self.dynamic_sizes.env.guards)
        before = () if call is None else self._known_results.marks()
        self.fake_mode.asks_kernels = True
        try:
            with self.fake_mode, self._m.levels.on_symbols:
                called = taking_symbols(function, (*args, *kwargs.values()))
                try:
                    result = called(*args, **kwargs)
                except UnbackedError as problem:
                    if self._m.levels.inside:
                        raise
                    result = going_on(self.fake_mode, lambda: called(*args, **kwargs), problem)
        except (DataDependentError, UnbackedError) as error:
            if isinstance(error, UnbackedError):
                self._try_with_numbers(error.expr)
            if self.doubtful and self.fake_mode.writes != writes:
                words = f"{_name(target)} writes to what may be a copy or not, which only the run can tell"
                raise Unsupported(words, self.doubtful) from None
            raise Unsupported(f"{_name(target)} depends on a tensor's value ({error})") from error
        except RecursionError:
            raise Unsupported("calls nested too deep to inline") from None
        except Exception as error:
            self.refused_by_operator = not isinstance(error, NotImplementedError)
            self.dynamic_sizes.refused |= self._m.levels.inside and any(words in str(error) for words in _NO_SYMBOLS)
            words = str(error).partition("\nException raised from")[0]  # its own stack
            # What sizes were held to for an answer that never came holds for nothing: another attempt ends before the call.
            step = self._state.step if len(self.dynamic_sizes.env.guards) != told else 0
            raise Unsupported(f"{_name(target)} raises {type(error).__name__}: {words}", step) from error
        finally:
            self.fake_mode.asks_kernels = False
        self.check_views()
        if self.fake_mode.doubtful_copies != copies:
            self.doubtful = self.doubtful or self._state.step
        if call is not None:
            self._known_results.note(call, before, given, kwargs, result)
        return result

    def _is_plain(self, result: Any) -> bool:
        """Whether a result holds no tensor and no symbol, so that it is a constant of this capture."""
        if result is None:
            return False  # an operation for its effect
        if type(result) in CONSTANT_TYPES:
            return True
        if type(result) in (tuple, list, torch.Size):
            return all(self._is_plain(r) or r is None for r in result)
        return False

    def _wrap_result(self, node: fx.Node, result: Any) -> Variable:
        """The variable of what a node gives."""
        node.meta["val"] = result
        if isinstance(result, torch.Tensor):
            self.elsewhere |= result.device.type != "cpu"
            found = self.fakes.get(address(result))
            if found is not None:
                return found
            # Of a fake the attribute tells it alone, which is asked without a call of Python.
            fake = type(result) is FakeTensor
            parameter = getattr(result, "_is_param", False) if fake else isinstance(result, torch.nn.Parameter)
            variable = Tensor(node, result, torch.nn.Parameter if parameter else torch.Tensor)
            self.know(variable)
            return self._effects.created(variable)
        if isinstance(result, SYMBOLIC):
            return self._effects.created(Symbolic(node, result))
        if type(result) in CONSTANT_TYPES:
            return Constant(result)
        if isinstance(result, (tuple, list)):
            items = [self._part(node, i, r) for i, r in enumerate(result)]
            if isinstance(result, list):
                return self._effects.created(List(items))
            return self._effects.created(Tuple(items, type(result)))
        if isinstance(result, dict):
            entries = {k: (self._builder.from_python(k), self._part(node, k, v)) for k, v in result.items()}
            return self._effects.created(Dict(entries))
        raise Unsupported(f"{_name(node.target)} gives a {type(result).__name__}")

    def _part(self, node: fx.Node, key: Any, value: Any) -> Variable:
        if type(value) in CONSTANT_TYPES:
            return Constant(value)
        got = self.graph.call("call_function", operator.getitem, (node, key), {}, self._state.where())
        return self._wrap_result(got, value)

    def number(self, tensor: Tensor, name: str, args: list[Any], kwargs: dict[str, Any], value: Any) -> Variable:
        """A symbolic size, stride or count of a tensor: one node per number."""
        key = (tensor.node, name, tuple(args), tuple(kwargs.items()))
        found = self._numbers.get(key)
        if found is None:
            node = self.graph.call("call_method", name, (tensor.node, *args), kwargs, self._state.where())
            node.meta["val"] = value
            found = self._numbers[key] = self._effects.created(Symbolic(node, value))
        return found

    def decide(self, condition: Any) -> bool | None:
        """What a condition on numbers found in data is, if that can be guarded; None where only the run can tell."""
        decided = self._scalars.decide(condition)
        if decided is None:
            self._try_with_numbers(condition.node.expr)
        return decided

    def told(self, tensor: Tensor) -> Any:
        """The number that a tensor holds, or whether it is true, guarded to stay so, where that is to be known; None where it is not."""
        number = self._scalars.number(tensor.fake, _TELLS in self._effects.ran_ahead)
        if number is not None:
            self._scalars.keep(tensor.fake)
        elif self._scalars.number(tensor.fake, True) is not None:
            self._effects.ran_ahead.add(_TELLS)
            raise EvaluateAgain("numbers that tensors hold")
        else:
            number = self._scalars.truth(tensor.fake, self._state.where())
        return self.fake_mode.certain(tensor.fake) if number is None else number

    def holds_known(self, fake: torch.Tensor) -> bool:
        """Whether what a tensor holds is known, or may be: numbers that the program may ask for."""
        return self._scalars.tells_of(fake)

    @property
    def numbers_met(self) -> int:
        """How many symbolic numbers there are."""
        return len(self._numbers) + len(self._number_inputs)

    def _try_with_numbers(self, expr: Any) -> None:
        """Evaluate again with the numbers that tensors hold now, if nothing goes on without those of an expression."""
        if _TELLS not in self._effects.ran_ahead and self._scalars.could_tell(expr):
            self._effects.ran_ahead.add(_TELLS)
            raise EvaluateAgain("numbers that tensors hold")

    def _tell_numbers(self, values: Iterable[Any], of_inputs: bool, lists: bool = False) -> None:
        """Tell the fakes among arguments what they hold, where that is known: where they stand for numbers, the numbers are recorded.

        `lists`: also those that are no scalars.
        """
        for value in values:
            if type(value) in CONSTANT_TYPES or (type(value) is FakeTensor and not lists and value.dim()):
                continue
            if isinstance(value, torch.Tensor):
                if (lists or value.dim() == 0) and not value.is_inference():  # those count no writes
                    number = self._scalars.number(value, of_inputs)
                    value.number = None if number is None else (value._version, number)  # type: ignore[attr-defined]
            elif isinstance(value, (tuple, list)):
                self._tell_numbers(value, of_inputs)
            elif isinstance(value, slice):
                self._tell_numbers((value.start, value.stop, value.step), of_inputs)

    def _with_numbers(self, argument: Variable, told: dict[int, Any]) -> Variable:
        """An argument with numbers for the fakes that were read, by their ids."""
        value = argument.realize(self._m)
        if isinstance(value, Tensor):
            return Constant(told[address(value.fake)]) if address(value.fake) in told else value
        parts: Sequence[Variable] = ()
        if isinstance(value, (Slice, Tuple, List)):
            parts = value.parts if isinstance(value, Slice) else value.items
        changed = [self._with_numbers(part, told) for part in parts]
        if all(new is old.realize(self._m) for new, old in zip(changed, parts, strict=True)):
            return value
        if isinstance(value, Slice):
            return Slice(*changed)
        return self._builder.new_tuple(changed) if isinstance(value, Tuple) else self._effects.created(List(changed))

    def control(self, operation: Any, args: tuple[fx.Node, ...], values: tuple[Any, ...], acts: bool) -> Variable:
        """Add the call of an operation over graphs, which gives `values`; `acts`: it draws random numbers, say."""
        require_no_input_hooks(self.autograd.acts, operation)
        self._effects.left_behind()
        node = self.graph.call("call_function", operation, args, {}, self._state.where())
        node.meta["step"] = self._state.step
        if acts:
            node.meta["effect"] = "other"
        return self._wrap_result(node, values)

    def require_history(self, outputs: Sequence[Tensor]) -> None:
        """Raise where gradients of these lead through control flow in the graph."""
        require_history(self.graph.graph, [output.node for output in outputs])

    def call_for_effect(self, operation: Any, args: tuple[Any, ...]) -> fx.Node:
        """Add a call that gives nothing, and was made on fakes already."""
        self._effects.left_behind()
        node = self.graph.call("call_function", operation, args, {}, self._state.where())
        node.meta |= {"val": None, "step": self._state.step, "effect": "other"}
        return node

    def forget(self, nodes: Sequence[fx.Node], *, computed: bool = False) -> None:
        """Take calls out of the graph; nobody may know their values any more. `computed`: they did nothing but to compute these."""
        gone = set(nodes)
        if not computed:
            self._scalars.forget()
        self.recorded.difference_update(gone)
        for node in reversed(nodes):
            self.graph.graph.erase_node(node)
        for key in [key for key, tensor in self.fakes.items() if tensor.node in gone]:
            del self.fakes[key]
        self._numbers = {k: n for k, n in self._numbers.items() if k[0] not in gone and n.node not in gone}
        if self.graph.first_call in gone:
            calls = (node for node in self.graph.graph.nodes if node.op.startswith("call"))
            self.graph.first_call = next(calls, None)

    def state_call(self, target: Any, args: Args) -> None:
        """A call that changes torch's modes: recorded in the graph and made for real, to be undone after tracing."""
        self._effects.left_behind()
        real = [self._builder.to_python(a) for a in args]
        node = self.graph.call("call_function", target, tuple(real), {}, self._state.where())
        node.meta["val"] = None
        name = SETTERS.get((target, tuple(real[:-1])))
        if name is not None:
            node.meta["was"] = SETTINGS[name].read()
        self._settings_change()
        result = target(*real)
        self.sets_state = True
        if torch.is_grad_enabled():
            self._need_views()
        if isinstance(result, int):
            self.autocast_nesting = result
            self.autocast_nesting_change += 1 if target is torch.autocast_increment_nesting else -1

    def _settings_change(self) -> None:
        """Torch's settings are about to change: what was learnt under others counts no more."""
        self.settings_set += 1
        self._known_results.clear()
        self._scalars.settle()

    def enter_inference(self, block: Variable, mode: bool) -> None:
        """Inference mode is on, or off, until ``block`` is left."""
        if self._m.levels.inside or self.graph.checkpoint is not None:
            raise Unsupported("inference mode within a function transform or a checkpoint")
        self._gradients_are(self.inference.enter(block, mode, self._state.step))

    def leave_inference(self, block: Variable) -> None:
        """It is as before ``block``."""
        self._gradients_are(self.inference.leave(block))

    def version(self, tensor: Tensor) -> int:
        """How often a tensor of the frame's own was written to, as its version counter tells, which no other call's results share."""
        fake, inputs = tensor.fake, (each for each in self.graph.inputs if isinstance(each, torch.Tensor))
        key = _torch.inside(fake).storage_key
        self._require_told_place(key)
        apart = any(fake is each for each in self.graph.uncounted)
        if fake.is_inference() or not (apart or all(_torch.inside(each).storage_key is not key for each in inputs)):
            raise Unsupported("Tensor._version of what shares its memory with a tensor from outside")
        self.versions_told += 1
        self._need_views()
        return int(fake._version)

    def is_inference(self, tensor: Tensor) -> bool:
        """Whether a tensor was made in inference mode, by which guards, and calls in the graph, tell it."""
        data = tensor.given.get("data")
        if isinstance(data, Tensor):  # the program has set it, which may have made it one
            return self.is_inference(data)
        if tensor.value is not None and tensor_readers.tensor_keys(tensor.value) is not None:
            return _torch.is_inference(tensor.value)
        inputs = (each.value for each in self.fakes.values() if each.value is not None)
        if self.inference.before or any(map(_torch.is_inference, inputs)):  # fakes of those are not
            raise Unsupported("Tensor.is_inference() where inference mode was in force before")
        return tensor.fake.is_inference()

    def _gradients_are(self, on: bool) -> None:
        """Gradients are computed, or not, from here on, as they are for real by now; the graph says so."""
        self.state_call(_torch.set_grad_enabled, [self._builder.from_python(on)])

    def switch(self, setter: Any, args: tuple[Any, ...], value: Any) -> None:
        """The program sets one of torch's switches: so does the graph, where it comes by; raises what the setter raises."""
        if self._m.levels.inside:
            raise Unsupported("setting how torch chooses kernels within a function transform")
        self._settings_change()
        made = self.switches.set(setter, args, value)
        require_no_input_hooks(self.autograd.acts, made)
        self._effects.left_behind()
        self.graph.call("call_function", made, (), {}, self._state.where()).meta["val"] = ()


def _name(target: Any) -> str:
    return target if isinstance(target, str) else str(getattr(target, "__name__", target))


def _function(op: str, target: Any, args: list[Any]) -> Callable[..., Any]:
    """What a call calls, which takes all of `args`."""
    if op != "call_method":
        return target
    # Not the fakes' own, which takes nothing else.
    owner = torch.Tensor if isinstance(args[0], FakeTensor) else type(args[0])
    return getattr(owner, target)


def _is_condition(argument: Variable) -> TypeGuard[Symbolic]:
    """Whether an argument is a condition on symbols that the program did not ask yet."""
    found = resolved(argument)
    return isinstance(found, Symbolic) and found.python_type() is bool


def _may_be_short(value: Any) -> bool:
    """Whether it is a tensor with a size of which only the run can tell whether it is 1."""
    return isinstance(value, torch.Tensor) and any(is_unbacked(size) or is_open(size) for size in value.shape)
