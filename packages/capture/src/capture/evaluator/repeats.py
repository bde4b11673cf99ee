"""Calls of modules that are alike are evaluated once: the twelfth layer does what the second did.

What an evaluation comes to follows from its arguments, and from what it reads, of which all that counts is guarded. So where the
guards on what a call read of its module hold of another module, too, and the arguments are alike, the call of that one comes to
the same calls in the graph, on its own parameters. They are recorded, and the guards added, without evaluating anything.

In: calls of functions whose first argument is a module from outside, as they begin and end. Out: for a call that equals one before
it, its result. Calls that do more than to compute (change objects, set torch's settings, write to tensors that were there before) are no
examples; nor are calls of functions that the frame made itself, those that are given a part of the module or what it is part of, and
those that give what nobody looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

import torch
from torch import fx

from capture import config
from capture._native import address
from capture._torch import inside
from capture.errors import EvaluateAgain, Unsupported
from capture.guards import GuardKind
from capture.guards.holding import ASKED, holds
from capture.sources import Closure, Local, Source
from capture.variables.base import Args, Interpreter, Kwargs, SymbolicRaise, Variable
from capture.variables.constants import CONSTANT_TYPES, Constant
from capture.variables.functions import Function
from capture.variables.modules import Module
from capture.variables.placeholders import Lazy, resolved
from capture.variables.sequences import List, Tuple
from capture.variables.slices import Slice
from capture.variables.tensors import Tensor
from symshapes import FakeTensor, dataclass

from .builder import Inputs, VariableBuilder
from .examples import Call, Fact, Made, NoExample, Plan, parts_of, planned, result_of
from .guards import GuardTable
from .likeness import Likeness, Matching, can_match, likeness, places_of, tensors_in
from .recorder import GraphRecorder
from .side_effects import SideEffects
from .state import EvaluationState
from .within_reach import WithinReach

#: Among what an evaluation has found out: that calls are to be evaluated each by itself.
_APART = "calls that are alike"
#: So many such calls of one function are noted of which none repeats another; as many examples of one are kept.
_MOST = 4
#: So many plans are made of calls of one function, for the time that takes grows with all that was evaluated.
_MOST_PLANS = 16


class Repeats:
    """The calls of one attempt that others may repeat."""

    def __init__(
        self,
        m: Interpreter,
        state: EvaluationState,
        effects: SideEffects,
        guards: GuardTable,
        builder: VariableBuilder,
        recorder: GraphRecorder,
        inputs: Inputs,
    ) -> None:
        self._m = m
        self._state = state
        self._effects = effects
        self._guards = guards
        self._builder = builder
        self._recorder = recorder
        self._inputs = inputs
        #: By function, class of module, and what is seen of the tensors among the arguments.
        self._calls: dict[Any, list[Call]] = {}
        #: In the same way, how many of its calls in a row repeated none.
        self._in_vain: dict[Any, int] = {}
        #: By function and class of module, how many plans were made: each looks through all guards.
        self._plans: dict[Any, int] = {}
        #: Whether any may.
        self.is_on = config.repeat_equal_calls and _APART not in effects.ran_ahead
        self._within_reach = WithinReach(effects)

    def release(self) -> None:
        """Let go of the program's objects."""
        self._calls.clear()
        self._in_vain.clear()
        self._plans.clear()

    def begin(self, function: Function, args: Args, kwargs: Kwargs, resumable: bool) -> Call | Variable | None:
        """A call is about to be evaluated: its result if it repeats one before it; else what is to be told of its end, if anything."""
        module = resolved(args[0])
        if not isinstance(module, Module) or not _has_parts(module.value):
            return None
        if function.real is None or not self._is_quiet(module):
            return None  # one of the frame's own has what the frame has at hand
        given = (*args[1:], *kwargs.values())
        if any(not can_match(each) or self._is_of(module, each) for each in given):
            return None
        likenesses: dict[fx.Node, Likeness] = {}
        for argument in given:
            for tensor in tensors_in(argument):
                like = likenesses.get(tensor.node) or likeness(self._recorder, tensor)
                if like is None:
                    return None
                likenesses[tensor.node] = like
        key = address(function.code), address(module.cls), *likenesses.values()
        in_vain = self._in_vain.get(key, 0)
        if in_vain >= _MOST:
            return None
        for call in reversed(self._calls.get(key, ())):
            if call.resumable is resumable and call.function is function:
                result = self._repeat(call, module, args, kwargs)
                if result is not None:
                    call.used = True
                    self._in_vain[key] = 0
                    return result
        self._in_vain[key] = in_vain + 1
        effects, recorder = self._effects, self._recorder
        return Call(
            key, function, module, args, kwargs, resumable, likenesses, self._marks(), recorder.settings_set,
            effects.outside, self._state.step, self._guards.count, self._counts(), len(effects.mutated_at), effects.other_changes, len(recorder.graph.made), len(recorder.fake_mode.write_log),
        )  # fmt: skip

    def end(self, call: Call, result: Variable) -> None:
        """It is over, and gave this."""
        effects, recorder, state = self._effects, self._recorder, self._state
        if call.marks != self._marks() or call.settings != recorder.settings_set:
            return
        if any(step <= call.step for _, step in effects.mutated_at[call.mutations :]):
            return  # of what may have been there before
        if self._wrote_to_others(call):
            return
        recorded = sum(node in recorder.recorded for node in recorder.graph.made[call.made :])
        if effects.other_changes - call.left_behind != recorded:
            return
        try:
            call.result = result_of(call, result)
        except NoExample:
            return
        call.last_step = state.step
        instructions, entered, asked_grad = call.counts
        call.counts = (
            state.instructions - instructions,
            state.entered - entered,
            recorder.asked_grad - asked_grad,
        )
        call.ends = len(recorder.graph.made), self._guards.count, self._guards.reached_count, len(self._inputs)
        calls = self._calls.setdefault(call.key, [])
        calls.append(call)
        if len(calls) > _MOST:  # the oldest of those that none repeated, if there is one
            calls.remove(next((each for each in calls[:-1] if not each.used), calls[0]))

    # What tells whether a call only computes

    def _is_quiet(self, module: Module) -> bool:
        """Whether nothing is going on around a call that an evaluation depends on beside arguments and guards."""
        m, state, effects, recorder, source = self._m, self._state, self._effects, self._recorder, module.source
        return (
            source is not None
            and type(source.root)
            in (Local, Closure)  # by no other way than its arguments the call comes to what the module is part of
            and self._within_reach.excludes(source)
            and not effects.is_apart
            and not effects.later.concerned
            and effects.reads is None
            and not m.globals.written
            and state.visit is None
            and not state.mortal
            and not state.probing
            and m.errors.handled is None
            and not m.modes.active
            and not m.levels.inside
            and not recorder.is_below_autograd
            and recorder.graph.checkpoint is None
            and not recorder.inference.inside
            and not state.may_catch()
        )

    def _is_of(self, module: Module, argument: Variable) -> bool:
        """Whether an argument is a part of a module, or that of it: no guard tells which of them what is read of it is read of."""
        own = module.source
        assert own is not None
        return any(own in place.path or place in own.path for place in places_of(argument, self._builder))

    def _marks(self) -> tuple[Any, ...]:
        """What changes as a program does more than to compute."""
        m, state, effects, recorder, builder = self._m, self._state, self._effects, self._recorder, self._builder
        mode, env = recorder.fake_mode, recorder.dynamic_sizes.env
        return (
            len(mode.unsaid), mode.lasting, recorder.doubtful, recorder.numbers_met, recorder.versions_told, builder.stand_ins, len(recorder.placed),
            len(recorder.autograd.acts), len(recorder.autograd.given_up), recorder.autocast_nesting,
            len(env.guards), env.unbacked_count, len(env.runtime_asserts), len(env.sources),
            m.identity.hashed, m.identity.has_ids, m.identity.literals_told, m.calls.suspended,
            len(effects.context_variables), len(effects.contexts), len(effects.announced), len(effects.remembered),
            len(effects.counted), len(effects.globals_let_go), len(effects.listeners), len(effects.limits),
            effects.outside, len(state.followed), state.lost_cell, len(m.classes.made),
        )  # fmt: skip

    def _wrote_to_others(self, call: Call) -> bool:
        """Whether a call wrote to memory that it did not make itself."""
        written = set(self._recorder.fake_mode.write_log[call.written :])
        return bool(written) and any(
            isinstance(each, torch.Tensor) and inside(each).storage_key in written
            for node in islice(self._recorder.graph.made, call.made)
            for each in parts_of(node.meta.get("val"))
        )

    def _counts(self) -> tuple[int, int, int]:
        return self._state.instructions, self._state.entered, self._recorder.asked_grad

    # Repeating

    def _repeat(self, call: Call, module: Module, args: Args, kwargs: Kwargs) -> Variable | None:
        """What a call comes to by the example of another; None where it is not like that."""
        state = self._state
        steps = call.last_step - call.step
        if call.settings != self._recorder.settings_set or call.outside != self._effects.outside:
            return None
        if not self._within_reach.stays(call.mutations):
            return None
        if [*call.kwargs] != [*kwargs]:
            return None
        if len(call.args) != len(args) or (state.break_at is not None and state.step + steps >= state.break_at):
            return None
        matching = Matching(self._builder, self._recorder, call.likenesses)
        if not all(map(matching.match, call.given, (*args[1:], *kwargs.values()))):
            return None
        if call.plan is None:
            key = address(call.function.code), address(call.module.cls)
            plans = self._plans[key] = self._plans.get(key, 0) + 1
            if plans > _MOST_PLANS:
                return None
            try:
                call.plan = planned(call, self._guards, self._recorder, self._inputs)
            except NoExample:
                self._calls[call.key].remove(call)
                return None
        found = self._found(call.plan, module)
        if found is None or not self._look_at(matching) or not self._take_over(call.plan, found, matching.tensors):
            return None
        variables = _Nodes(self._recorder, matching.tensors)
        try:
            self._record(call, variables)
            literals = {each: Constant(found.values[at], found.sources[at]) for each, at in call.plan.literals.items()}
            result = self._rebuilt(call.result, variables, {**matching.given, **literals}, {})
        except (Unsupported, SymbolicRaise, NoExample) as problem:
            # The graph has some of its calls by now.
            self._effects.ran_ahead.add(_APART)
            raise EvaluateAgain("a call that was taken for one before it") from problem
        instructions, entered, asked_grad = call.counts
        state.count_instructions(instructions)
        state.entered += entered
        self._recorder.asked_grad += asked_grad
        return result

    def _found(self, plan: Plan, module: Module) -> _Found | None:
        """The places of another module, if all that was read of the first holds of it."""
        assert module.source is not None
        sources: list[Source] = [module.source]
        values: list[Any] = [module.value]
        add_source, add_value = sources.append, values.append
        for place in plan.places:
            if type(values[place.base]) is not type(plan.values[place.base]):
                return None  # reading it could run code of the program's
            add_source(place.at(sources))
            try:
                add_value(place.read(values))
            except Exception:  # of the program's objects: it is not what was read there
                return None
        shared = [False] * len(sources)
        taken: set[int] = set()
        for at, was, _, _ in plan.inputs:
            now = values[at]
            shared[at] = now is was
            if now is was:
                continue
            met = self._builder.met(now)
            if (met is not None and met.source != sources[at]) or address(now) in taken:
                return None
            taken.add(address(now))
        for at, place in enumerate(plan.places, 1):
            shared[at] |= shared[place.base]
        found = _Found(sources, values, plan.values, shared)
        for fact in plan.facts:
            if not found.has_it(fact) and not self._holds(fact, found):
                return None
        for table, _, key in plan.reached:
            if not holds(GuardKind.HAS_KEY, values[table], key):
                return None
        return found

    def _holds(self, fact: Fact, found: _Found) -> bool:
        value = found.values[fact.place]
        if fact.kind is GuardKind.TENSOR:
            return isinstance(value, torch.Tensor)  # compared once it is an input
        if fact.kind in ASKED:
            if not holds(fact.kind, value, fact.expected):
                return False
            # One that was not the same each time is an input.
            counts = fact.kind is GuardKind.EQUALS and type(value) in (int, float)
            return not counts or self._recorder.number_input(value, found.sources[fact.place]) is None
        if fact.kind is GuardKind.SAME_OBJECT:
            at = fact.others[0][0]  # elsewhere is what the first module has there
            return value is (found.was[fact.place] if at is None else found.values[at])
        others = [found.values[at] for at, _ in fact.others if at is not None]
        return len({address(each) for each in (value, *others)}) == 1 + len(others)

    def _look_at(self, matching: Matching) -> bool:
        """Look at arguments from outside that the example looked at; whether they are what they seemed to be."""
        for now, was in matching.waiting:
            line = self._guards.line_of(was.source)
            with self._state.at(line):
                found = now.realize(self._m)
            if found is not was and not (isinstance(was, Constant) and type(found) is Constant):
                return False
        return True

    def _take_over(self, plan: Plan, found: _Found, tensors: dict[fx.Node, Tensor]) -> bool:
        """Guard of another module what was guarded of the first, and meet what it has; whether its tensors are alike, too."""
        sources, values, guards = found.sources, found.values, self._guards
        # What both modules have is known by where the first one has it.
        known = [
            each if at == 0 or not found.shared[at] else plan.places[at - 1].source for at, each in enumerate(sources)
        ]
        for fact in plan.facts:
            if found.has_it(fact) or fact.kind is GuardKind.TENSOR:
                continue
            expected = fact.expected
            if fact.others:
                others = tuple([source if at is None else known[at] for at, source in fact.others])
                expected = others if fact.kind is GuardKind.DISTINCT else others[0]
            guards.add(known[fact.place], fact.kind, expected, fact.line)
        for table, entry, key in plan.reached:
            if not found.shared[table]:
                guards.reach_entry(Lazy(values[entry], sources[entry]), sources[table], key)
        for at, _, was, line in plan.inputs:
            if at and found.shared[plan.places[at - 1].base]:
                continue
            with self._state.at(line):
                now = self._builder.wrap(values[at], sources[at])
            if isinstance(was, Tensor):
                like = plan.likenesses[at]
                if not isinstance(now, Tensor) or (
                    now is not was and (like is None or like.known is not None or likeness(self._recorder, now) != like)
                ):
                    return False
                if tensors.setdefault(was.node, now) is not now:
                    return False  # which is an argument, too
        return True

    def _record(self, call: Call, variables: _Nodes) -> None:
        """Add a call's calls to the graph."""
        assert call.plan is not None
        state, recorder, start = self._state, self._recorder, self._state.step
        calls, made = call.plan.calls, recorder.graph.made
        for place, node in enumerate(calls):
            if node not in recorder.recorded:
                continue  # an input, or a part of the call before it
            state.step = start + node.meta["step"] - call.step
            args = [self._argument(each, variables) for each in node.args]
            kwargs = {name: self._argument(each, variables) for name, each in node.kwargs.items()}
            before = len(made)
            with state.at(node.meta["source"]):
                recorder.record(node.op, node.target, args, kwargs)
            variables.stand_for(calls[place : place + len(made) - before], made[before:])
        state.step = start + call.last_step - call.step

    def _argument(self, value: Any, variables: _Nodes) -> Variable:
        """A variable of what a call in the graph takes."""
        if isinstance(value, fx.Node):
            return variables[value]
        if type(value) in CONSTANT_TYPES:
            return Constant(value)
        if isinstance(value, tuple):
            items = [self._argument(each, variables) for each in value]
            return Tuple(items, torch.Size) if type(value) is torch.Size else Tuple(items)
        if isinstance(value, list):
            return List([self._argument(each, variables) for each in value])
        if isinstance(value, slice):
            return Slice(*[self._argument(each, variables) for each in (value.start, value.stop, value.step)])
        raise NoExample

    def _rebuilt(
        self, value: Variable | Made | None, variables: _Nodes, instead: dict[int, Variable], made: dict[int, Variable]
    ) -> Variable:
        """A result like another's."""
        if isinstance(value, Made):
            found = made.get(address(value))
            if found is None:
                items = [self._rebuilt(item, variables, instead, made) for item in value.items]
                found = self._builder.new_tuple(items) if value.cls is tuple else self._effects.created(List(items))
                made[address(value)] = found
            return found
        assert value is not None
        found = instead.get(address(value))
        if found is not None:
            return found
        value = resolved(value)
        if isinstance(value, Tensor):
            return variables[value.node]
        if type(value) is Constant:
            return value
        raise NoExample


@dataclass(frozen=True, eq=False)
class _Found:
    """The places of a plan at another module, what is read there, and whether that is, or hangs from, the very object that the first
    one has. `was`: what is read of the first."""

    sources: list[Source]
    values: list[Any]
    was: list[Any]
    shared: list[bool]

    def has_it(self, fact: Fact) -> bool:
        """Whether a fact is of the very objects that the first module has: it is guarded of them."""
        return self.shared[fact.place] and all(at is None or self.shared[at] for at, _ in fact.others)


class _Nodes:
    """The variables that stand for an example's nodes."""

    def __init__(self, recorder: GraphRecorder, tensors: dict[fx.Node, Tensor]) -> None:
        self._recorder = recorder
        self._tensors = tensors

    def __getitem__(self, node: fx.Node) -> Tensor:
        """A node's: what it is where nothing stands for it, which neither the module nor an argument has brought."""
        found = self._tensors.get(node)
        return self._recorder.fakes[address(node.meta["val"])] if found is None else found

    def stand_for(self, nodes: Sequence[fx.Node], made: Sequence[fx.Node]) -> None:
        """Those of one call stand for those of another; raises where they are not as many, or give something else."""
        if len(nodes) != len(made):
            raise NoExample
        for was, now in zip(nodes, made, strict=True):
            value = now.meta["val"]
            if isinstance(value, FakeTensor):
                if not self._are_alike(was.meta["val"], value):
                    raise NoExample
                self._tensors[was] = self._recorder.fakes[address(value)]

    def _are_alike(self, was: Any, now: FakeTensor) -> bool:
        metadata = self._recorder.fake_mode.metadata
        return type(was) is FakeTensor and metadata(was) == metadata(now) and was.requires_grad is now.requires_grad


def _has_parts(module: torch.nn.Module | None) -> bool:
    """Whether a module has others: what those without do is as soon evaluated."""
    return module is not None and bool(module.__dict__.get("_modules"))
