"""Control flow in a captured graph: calls of operations that hold graphs of their own.

In: values of the graph. Out: a tuple of tensors. Which graph runs, and how often, the values decide when the operation runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import torch


class ControlFlow:
    """An operation over graphs. `graphs` take tensors and numbers and give tuples of tensors."""

    def __init__(self, graphs: Sequence[Callable[..., Any]]) -> None:
        self.graphs = tuple(graphs)
        self.__name__ = self.__qualname__ = type(self).__name__.lower()

    def over(self, graphs: Sequence[Callable[..., Any]]) -> ControlFlow:
        """The same operation over other graphs, such as these compiled."""
        raise NotImplementedError

    def __call__(self, *values: Any) -> tuple[Any, ...]:
        raise NotImplementedError


class Conditional(ControlFlow):
    """`torch.cond`: `conditional(condition, *operands)` is what the first graph makes of the operands, or the second.

    As of eager's, every operand that requires grad gets a gradient, of zeros if the graph that ran does not use it.
    """

    def over(self, graphs: Sequence[Callable[..., Any]]) -> Conditional:
        return Conditional(graphs)

    def __call__(self, condition: Any, *operands: Any) -> tuple[Any, ...]:
        return connected(self.graphs[0 if condition else 1](*operands), operands)


class Arm(NamedTuple):
    """One way of a `Branch`: which of its graphs runs, if any; which operands that takes; where each result is, among what the graph
    gives (from 0 on) or among the operands (-1 for the first, -2 for the second)."""

    graph: int | None
    takes: tuple[int, ...]
    gives: tuple[int, ...]


class Branch(ControlFlow):
    """An `if` of a program's: `branch(condition, *operands)` goes the first of two ways, or the second.

    All is as if the program had gone it: what a way only passes on is the operand itself, and an operand that it does not use gets
    no gradient by it.
    """

    def __init__(self, graphs: Sequence[Callable[..., Any]], arms: Sequence[Arm]) -> None:
        super().__init__(graphs)
        self.arms = tuple(arms)

    def over(self, graphs: Sequence[Callable[..., Any]]) -> Branch:
        return Branch(graphs, self.arms)

    def __call__(self, condition: Any, *operands: Any) -> tuple[Any, ...]:
        graph, takes, gives = self.arms[0 if condition else 1]
        made = () if graph is None else self.graphs[graph](*[operands[place] for place in takes])
        return tuple([made[place] if place >= 0 else operands[~place] for place in gives])


class Loop(ControlFlow):
    """`while_loop`: `loop(*values)` runs the second graph on the first `count` values, and the rest with them, while the first
    graph's answer for these is true; the last values. As of eager's, every value given gets a gradient if it requires grad.

    `late` are the places of those that require grad from the first step on only: the graphs take them as if always.
    """

    def __init__(self, graphs: Sequence[Callable[..., Any]], count: int, late: Sequence[int] = ()) -> None:
        super().__init__(graphs)
        self.count, self.late = count, tuple(late)

    def over(self, graphs: Sequence[Callable[..., Any]]) -> Loop:
        return Loop(graphs, self.count, self.late)

    def __call__(self, *values: Any) -> tuple[Any, ...]:
        condition, body = self.graphs
        carried, rest = _requiring(values[: self.count], self.late), values[self.count :]
        if not condition(*carried, *rest)[0]:
            return connected([value.clone() for value in values[: self.count]], values)  # eager's gives none back, too
        while True:
            carried = body(*carried, *rest)
            if not condition(*carried, *rest)[0]:
                return connected(carried, values)


class Scan(ControlFlow):
    """`scan`, and `map` where it carries nothing: `scan(*values)` runs the graph on `carried` values, a slice each of `count`
    tensors along their first dimension, and the rest; the first results are carried on, the others are stacked.

    As of eager's, every value given gets a gradient if it requires grad. `late`: see `Loop`.
    """

    def __init__(
        self, graphs: Sequence[Callable[..., Any]], carried: int, count: int, late: Sequence[int] = ()
    ) -> None:
        super().__init__(graphs)
        self.carried, self.count, self.late = carried, count, tuple(late)

    def over(self, graphs: Sequence[Callable[..., Any]]) -> Scan:
        return Scan(graphs, self.carried, self.count, self.late)

    def __call__(self, *values: Any) -> tuple[Any, ...]:
        (step,) = self.graphs
        carried = _requiring(values[: self.carried], self.late)
        scanned, rest = _rows(values[self.carried :], self.count)
        made = []
        for row in scanned:
            results = step(*carried, *row, *rest)
            carried = results[: self.carried]
            made.append(results[self.carried :])
        return connected((*carried, *_stacked(made)), values)


class AssociativeScan(ControlFlow):
    """`associative_scan`: `scan(*values)` is what the graph makes of all slices up to each, of `count` tensors along their first
    dimension, two of each at a time, with the rest. The graph takes dense slices. `late`: see `Loop`.
    """

    def __init__(self, graphs: Sequence[Callable[..., Any]], count: int, late: Sequence[int] = ()) -> None:
        super().__init__(graphs)
        self.count, self.late = count, tuple(late)

    def over(self, graphs: Sequence[Callable[..., Any]]) -> AssociativeScan:
        return AssociativeScan(graphs, self.count, self.late)

    def __call__(self, *values: Any) -> tuple[Any, ...]:
        (combine,) = self.graphs
        scanned, rest = _rows(values, self.count)
        made: list[tuple[torch.Tensor, ...]] = []
        for row in scanned:
            dense = tuple(each.contiguous() for each in row)
            if made:
                dense = tuple(each.contiguous() for each in combine(*made[-1], *dense, *rest))
            else:
                dense = _requiring(dense, self.late)
            made.append(dense)
        return _stacked(made)


class Switch(ControlFlow):
    """`switch()` sets one of torch's own switches, by which its libraries choose kernels: `setter(*args, value)`. It gives nothing.

    `getter(*args)` tells what is in force. What runs after it in the graph, and what is compiled for that, finds it set.
    """

    def __init__(self, getter: Callable[..., Any], setter: Callable[..., Any], args: Sequence[Any], value: Any) -> None:
        super().__init__(())
        self.getter, self.setter, self.args, self.value = getter, setter, tuple(args), value

    def over(self, graphs: Sequence[Callable[..., Any]]) -> Switch:
        return self

    def back(self) -> Switch:
        """The one that sets what is in force now; nothing, where nothing can be told."""
        return Switch(self.getter, self.setter, self.args, self.getter(*self.args))

    def __call__(self, *values: Any) -> tuple[Any, ...]:
        if self.value is not None:
            self.setter(*self.args, self.value)
        return ()


def connected(results: Sequence[torch.Tensor], operands: Sequence[Any]) -> tuple[torch.Tensor, ...]:
    """The results, from which each operand that requires grad gets a gradient, even if it is zeros."""
    needing = [value for value in operands if isinstance(value, torch.Tensor) and value.requires_grad]
    if not needing or not torch.is_grad_enabled():
        return tuple(results)
    found: tuple[torch.Tensor, ...] = _Connected.apply(len(results), *results, *needing)  # type: ignore[no-untyped-call]
    return found


def _requiring(values: Sequence[Any], late: Sequence[int]) -> tuple[Any, ...]:
    """The values, of which those at these places require grad as what is carried on in their place will."""
    if not late or not torch.is_grad_enabled():
        return tuple(values)
    return tuple(value.detach().requires_grad_() if at in late else value for at, value in enumerate(values))


def _rows(values: Sequence[Any], count: int) -> tuple[Iterable[tuple[torch.Tensor, ...]], Sequence[Any]]:
    """The slices of the first `count` tensors, together, and the rest."""
    return zip(*(value.unbind(0) for value in values[:count]), strict=True), values[count:]


def _stacked(rows: Sequence[Sequence[torch.Tensor]]) -> tuple[torch.Tensor, ...]:
    """One dense tensor for each column."""
    return tuple(torch.stack(column).contiguous() for column in zip(*rows, strict=True))


class _Connected(torch.autograd.Function):
    """Passes on the results, and zeros to what else there is."""

    @staticmethod
    def forward(ctx: Any, count: int, *values: torch.Tensor) -> Any:
        ctx.like = [(value.shape, value.dtype, value.device) for value in values[count:]]
        results = tuple(value.detach() for value in values[:count])
        ctx.mark_non_differentiable(*(r for r in results if not (r.is_floating_point() or r.is_complex())))
        ctx.set_materialize_grads(False)
        return results

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        zeros = [torch.zeros(shape, dtype=dtype, device=device) for shape, dtype, device in ctx.like]
        return None, *gradients, *zeros
