"""Results that are computed from one another: whatever users ask autograd about them is answered as in eager."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from torch import fx
from torch.utils.checkpoint import checkpoint

import aotgrad


def setitem(tensor, index, value):
    tensor[index] = value


fx.wrap("setitem")


class Own(torch.autograd.Function):
    """Three times its argument, with a gradient that is not that of its forward."""

    @staticmethod
    def forward(ctx, x):
        return x * 3

    @staticmethod
    def backward(ctx, g):
        return g * 5


class Stops(torch.autograd.Function):
    """A result that requires a gradient and gives none."""

    @staticmethod
    def forward(ctx, x):
        return x * 3

    @staticmethod
    def backward(ctx, g):
        return None


def chained(x, w):
    a = (x * w).sin()
    return a, a.exp() * w


def last_first(x, w):
    a = (x * w).sin()
    return a.exp() * w, a


def three(x, w):
    a = (x * w).sin()
    b = a.exp() * w
    return b, (b * a).cos(), a


def fork(x, w):
    a = (x * w).sin()
    return a, a.exp() * w, a.cos() + w


def past(x, w):
    """`o` is computed from `a` and from what `a` is computed from, which nobody sees."""
    h = (x * w).tanh()
    a = h.sin()
    return a, a.exp() * w + h.cos()


def past_twice(x, w):
    h = (x * w).tanh()
    one = (h * w).softmax(-1)
    k = h + (one * h.cos())
    two = (k * w).softmax(-1)
    return k * (two + k.sin()), one, two


def of_several(x, w):
    """`a` is one of several tensors that one node made, another of which goes past it."""
    a, b, _ = (x * w).sin().unbind(0)
    a, b = torch.max(torch.stack([a, b]).exp(), 0)[0], b
    s, t = (x * w).exp().split(2)
    s, t = s * 1, t
    return s, (s[0] * t[0] * a * b).sin()


def sorted_and_more(x, w):
    values, _ = torch.sort(x * w, 0)
    mean, variance = torch.var_mean(x * w, 0)
    return mean, values * mean + variance, values


def own(x, w):
    a = Own.apply(x * w)
    return a, Own.apply(a.sin())


def stopped(x, w):
    a = (x * w).sin()
    return a, Stops.apply(a) + a.detach() + w


def some_only(x, w):
    a = (x * w).sin()
    return a, a.exp(), (x - w).cos(), a.detach() * w


def views(x, w):
    b = (x * w).sin()
    v = b[0]
    u = v[1:]
    return u, v, (u.exp() * v.sum()).sum() + b.sum()


def views_alone(x, w):
    b = (x * w).sin()
    v = b.t()
    return v[1:], v, b


def view_of_input(x, w):
    v = x[1:]
    u = v.t()
    return u, (u.exp() * 2).sum(1) + w, v


def view_past(x, w):
    t = (x * w).sin().view(-1)
    return t[:3], t[:3].exp(), t[2:] * 2, t.view(3, 4)


def written(x, w):
    a = (x * w).relu_()
    b = a * w
    b.mul_(a)
    return a, b.sin(), b


def joined(x, w):
    a = (x * w).sin()
    return a, torch.cat([a, w.expand(1, 4)]).unbind(0)[1] * 2, torch.stack([a, x * w]).sum(0)


def repeated(x, w):
    a = (x * w).sin()
    return a, a, {"o": a.exp()}, (a, 3)


PROGRAMS = [
    chained, last_first, three, fork, past, past_twice, of_several, sorted_and_more, own, stopped, some_only, views,
    views_alone, view_of_input, view_past, written, joined, repeated,
]  # fmt: skip


def fresh(nonleaf):
    x = torch.linspace(-1, 2, 12).reshape(3, 4).requires_grad_()
    w = torch.linspace(0.3, 1.7, 4).requires_grad_()
    return ([x, w], [x * 1, w * 1]) if nonleaf else ([x, w], [x, w])


def tensors(outputs):
    leaves = torch.utils._pytree.tree_leaves(outputs)
    return [t for t in leaves if isinstance(t, torch.Tensor) and t.requires_grad]


def weighed(outputs):
    return sum((t * torch.arange(1.0, t.numel() + 1).reshape(t.shape).cos()).sum() for t in outputs)


def retained(given, leaves, outputs):
    """`retain_grad` on every output."""
    for t in outputs:
        t.retain_grad()
    weighed(outputs).backward()
    return [t.grad for t in (*leaves, *outputs)]


def one_asked(number):
    def ask(given, leaves, outputs):
        """Only one result is differentiated, all are watched."""
        for t in outputs:
            t.retain_grad()
        if number < len(outputs):
            outputs[number].exp().sum().backward()
        return [t.grad for t in (*leaves, *outputs)]

    ask.__name__ = f"only_{number}"
    return ask


def hooked(given, leaves, outputs):
    """Hooks that look and that change, on tensors and on nodes."""
    seen = []
    for number, t in enumerate(outputs):
        t.register_hook(lambda g, number=number: seen.append((number, g.clone())))
        t.register_hook(lambda g, number=number: g * (number + 2))
    weighed(outputs).backward()
    seen.sort(key=lambda item: item[0])
    return [g for _, g in seen] + [t.grad for t in leaves]


def between(given, leaves, outputs):
    """`autograd.grad` of each result by all others, then of all by inputs; what has no way is None or an error."""
    found = []
    for t in outputs:
        others = [u for u in outputs if u is not t]
        loss = t.exp().sum()
        found += torch.autograd.grad(loss, others, allow_unused=True, retain_graph=True)
        found += torch.autograd.grad(loss, [*others, *given], allow_unused=True, retain_graph=True)
        for other in others:
            try:
                found.append(torch.autograd.grad(loss, other, retain_graph=True)[0])
            except RuntimeError as error:
                found.append(str(error).split(".")[0])
    found += torch.autograd.grad(weighed(outputs), [*given, *outputs], allow_unused=True)
    return found


def backward_to(given, leaves, outputs):
    """`backward(inputs=...)` fills only these."""
    weighed(outputs).backward(inputs=[outputs[0]])
    return [t.grad for t in leaves]


def captured(given, leaves, outputs):
    """Several gradients at once, and what was not used."""
    seen = []
    torch.autograd.graph.register_multi_grad_hook(outputs, lambda grads: seen.extend(grads))
    weighed(outputs).backward()
    return seen + [t.grad for t in leaves]


def later_use(given, leaves, outputs):
    """An output is used and written to after the call."""
    for t in outputs:
        t.retain_grad()
    clones = [t.clone() for t in outputs]
    clones[0].mul_(3)
    (weighed(outputs) + weighed(clones)).backward()
    return [t.grad for t in (*leaves, *outputs)]


def retaining(given, leaves, outputs):
    """Twice with `retain_graph`."""
    for t in outputs:
        t.retain_grad()
    weighed(outputs).backward(retain_graph=True)
    weighed(outputs).backward()
    return [t.grad for t in (*leaves, *outputs)]


ASKED = [retained, *map(one_asked, range(4)), hooked, between, backward_to, captured, later_use, retaining]


def equal(mine, theirs, where=""):
    assert len(mine) == len(theirs), where
    for at, (one, other) in enumerate(zip(mine, theirs, strict=True)):
        if isinstance(other, torch.Tensor):
            assert isinstance(one, torch.Tensor), f"{where} {at}: {one}"
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5, msg=lambda text: f"{where} {at}: {text}")
        else:
            assert one == other, f"{where} {at}: {one} is not {other}"


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
@pytest.mark.parametrize("nonleaf", [False, True], ids=["leaves", "computed"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_what_is_asked_is_answered_as_in_eager(interpreter, program, nonleaf):
    run = aotgrad.compile(program, fresh(nonleaf)[1], inference_compiler=interpreter)
    for ask in ASKED:
        answers = []
        for function in (run, program):
            leaves, given = fresh(nonleaf)
            answers.append(ask(given, leaves, tensors(function(*given))))
        equal(*answers, ask.__name__)


def traced(function):
    """`function` as a graph of torch calls, as a capture gives it."""
    return fx.symbolic_trace(function)


def twice(run, given, watched):
    """Differentiate a gradient with respect to a result, and that of all, watching the results."""
    outputs = run(*given)
    for t in outputs:
        t.retain_grad()
    a, o = outputs[0], outputs[-1]
    (inner,) = torch.autograd.grad((o**3).sum(), a, create_graph=True)
    outer = torch.autograd.grad(weighed(outputs).square(), watched, create_graph=True)
    again = torch.autograd.grad(inner.square().sum(), [a, *watched], create_graph=True)
    loss = inner.square().sum() + sum((g**2).sum() for g in (*outer, *again))
    loss.backward()
    return [inner, *outer, *again, *(t.grad for t in outputs), *(t.grad for t in watched)]


def smooth_three(x, w):
    a = torch.sin(x * w)
    b = torch.exp(a) * w
    return a, b, torch.cos(b * a) + x


def smooth_past(x, w):
    h = torch.tanh(x * w)
    a = torch.sin(h)
    return a, torch.exp(a) * w + torch.cos(h) * h


def smooth_dropped(x, w):
    a = torch.dropout(torch.sin(x * w), 0.5, True)
    return a, torch.exp(torch.dropout(a, 0.3, True)) * w + torch.cos(x)


def smooth_written(x, w):
    a = (x * w).sin_()
    b = a * w
    b.sin_()
    return a, b.sin(), b


def written_then_viewed(x, w):
    a = torch.sin(x * w)
    a.add_(w.mean())
    v = a.view(-1).view(a.shape)
    return v, torch.exp(v) * a, (v * w).sin()


def written_in_part(x, w):
    a = torch.sin(x * w)
    setitem(a, 0, w.cos())
    return a, torch.exp(a) * w


def written_in_turn(x, w):
    a, b = torch.sin(x * w), torch.cos(x)
    torch._foreach_mul_([a, b], [w, x])
    return a, b, a.exp() + b.exp()


def view_written(x, w):
    a = torch.sin(x * w)
    a[1:].mul_(w)
    return a, a.exp() * w


def written_unseen(x, w):
    a = torch.sin(x * w)
    b = a + w
    a.detach().mul_(2)
    return a, b.exp()


def input_written(x, w):
    h = x * 1
    h.mul_(w)
    return h, h.exp() * w, (h * w).sin()


def memory_written(x, w):
    h = w.new_zeros(2, 4)
    setitem(h, 0, w * 2)
    setitem(h, 1, torch.sin(x * w).sum(0))
    return h, torch.exp(h) * w


def detached_written(x, w):
    h = torch.zeros_like(x).detach()
    h.add_(x * w)
    return h, torch.exp(h) * w


SMOOTH_WRITTEN = [
    smooth_written,
    written_then_viewed,
    written_in_part,
    written_in_turn,
    view_written,
    input_written,
    memory_written,
    detached_written,
]


@pytest.mark.parametrize("nonleaf", [False, True], ids=["leaves", "computed"])
@pytest.mark.parametrize(
    "program", [smooth_three, smooth_past, smooth_dropped, *SMOOTH_WRITTEN], ids=lambda p: p.__name__
)
def test_second_derivatives_at_results(interpreter, program, nonleaf):
    run = aotgrad.compile(traced(program), fresh(nonleaf)[1], inference_compiler=interpreter)
    answers = []
    for function in (run, program):
        torch.manual_seed(4)
        leaves, given = fresh(nonleaf)
        answers.append(twice(function, given, leaves))
    equal(*answers, program.__name__)


def test_second_derivatives_of_inputs_that_depend_on_each_other(interpreter):
    """The way from one input through another is counted once."""
    program = traced(lambda h, w: (torch.sin(h * w) * h,))
    run = None
    answers = []
    for function in (None, program):
        w = torch.linspace(0.3, 1.7, 4).requires_grad_()
        h = w.exp()
        run = run or aotgrad.compile(program, [h, w], inference_compiler=interpreter)
        (out,) = (function or run)(h, w)
        (g,) = torch.autograd.grad(out.sum(), w, create_graph=True)
        g.square().sum().backward()
        answers.append([g, w.grad])
    equal(*answers)


def view_of_written(x, w):
    a = torch.sin(x * w)
    v = a[1:]
    a.mul_(w)
    return a, v.exp(), a.exp()


@pytest.mark.parametrize("program", [smooth_three, view_of_written, written_unseen], ids=["function", "view", "unseen"])
def test_second_derivatives_that_cannot_be_had_are_refused(interpreter, program):
    """Nobody knows which of a function's values a result is; what was made of a graph's value before it was written to leads there, too."""
    given = fresh(False)[1]
    run = aotgrad.compile(
        program if program is smooth_three else traced(program), given, inference_compiler=interpreter
    )
    gradient = torch.autograd.grad(weighed(run(*given)), given[0], create_graph=True)[0]
    with pytest.raises(RuntimeError, match="cannot be differentiated twice"):
        gradient.sum().backward()


def writes_input(x, w):
    before = x + w
    x.mul_(3)
    v = x[1:]
    return x.exp() * before, v, v.sin() * w


def writes_and_uses(x, w):
    x.mul_(3)
    return (x.exp() + w,)


@pytest.mark.parametrize("program", [writes_input, writes_and_uses], ids=lambda p: p.__name__)
def test_an_input_that_is_written_to_is_asked_about(interpreter, program):
    run = None
    answers = {}
    for name in ("run", "program"):
        answers[name] = []
        for ask in (retained, hooked, between):
            leaves, given = fresh(True)
            run = run or aotgrad.compile(program, fresh(True)[1], inference_compiler=interpreter)
            outputs = (run if name == "run" else program)(*given)
            answers[name] += ask(given, leaves, [*tensors(outputs), given[0]])
    equal(answers["run"], answers["program"])


def test_one_group_of_results_after_the_other(interpreter):
    """Without `retain_graph`, each with a graph of its own as far as the results that it is computed from."""
    run = aotgrad.compile(fork, fresh(False)[1], inference_compiler=interpreter)
    assert len(run.functions) == 3
    answers = []
    for function in (run, fork):
        leaves, given = fresh(False)
        a, b, c = function(*given)
        found = [*torch.autograd.grad(b.sum(), [a, leaves[1]], retain_graph=True)]
        found += torch.autograd.grad(c.sum(), a)
        found += torch.autograd.grad(b.sum(), a)
        a.backward(sum(found[2:]))
        answers.append([*found, *(t.grad for t in leaves)])
        with pytest.raises(RuntimeError, match="a second time"):
            b.sum().backward()
    equal(*answers)


@pytest.mark.parametrize("reentrant", [False, True])
def test_within_a_checkpoint(interpreter, reentrant):
    run = aotgrad.compile(three, fresh(False)[1], inference_compiler=interpreter)
    answers = []
    for function in (run, three):
        leaves, given = fresh(False)
        outputs = checkpoint(function, *given, use_reentrant=reentrant)
        if not reentrant:
            answers.append(retained(given, leaves, tensors(outputs)))
        else:
            weighed(outputs).backward()
            answers.append([t.grad for t in leaves])
    equal(*answers)


@pytest.mark.parametrize("program", [three, past_twice, smooth_three], ids=lambda p: p.__name__)
def test_results_die_with_the_last_that_is_held(interpreter, program):
    """No place leads back to itself: nothing waits for the collector."""
    x, w = fresh(False)[1]
    compiled = traced(program) if program is smooth_three else program
    run = aotgrad.compile(compiled, [x, w], inference_compiler=interpreter)
    gc.disable()
    try:
        for backward in (False, True):
            outputs = run(x, w)
            dying = [weakref.ref(t) for t in outputs] + [weakref.ref(t.grad_fn) for t in outputs]
            if backward:
                weighed(outputs).backward()
            del outputs
            assert not any(ref() is not None for ref in dying)
    finally:
        gc.enable()


def test_a_result_that_was_saved_and_written_to_is_noticed(interpreter):
    program = lambda x, w: [a := (x * w).sin(), a.square()]  # noqa: E731
    a, o = aotgrad.compile(program, fresh(False)[1], inference_compiler=interpreter)(*fresh(False)[1])
    a.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        o.sum().backward()


def test_nobody_pays_where_no_result_depends_on_another(interpreter):
    run = aotgrad.compile(lambda x, w: ((x * w).sin(), x.cos()), fresh(False)[1], inference_compiler=interpreter)
    assert "apply(args[0], args[1])" in run.__source__ or len(run.functions) == 2
    run = aotgrad.compile(lambda x, w: (x * w).sin(), fresh(False)[1], inference_compiler=interpreter)
    assert "apply(*args)" in run.__source__


def test_symbolic_sizes(interpreter):
    from symshapes import DimPolicy, FakeMode, ShapeEnv

    mode = FakeMode(ShapeEnv())
    x, w = fresh(False)[1]
    fakes = [mode.from_tensor(x, source="x", policy=[DimPolicy.DYNAMIC, DimPolicy.STATIC]), mode.from_tensor(w)]
    for program in (three, past_twice, views):
        run = aotgrad.compile(program, fakes, inference_compiler=interpreter)
        for length in (3, 5):
            answers = []
            for function in (run, program):
                x = torch.linspace(-1, 2, 4 * length).reshape(length, 4).requires_grad_()
                w = torch.linspace(0.3, 1.7, 4).requires_grad_()
                answers.append(between([x, w], [x, w], tensors(function(x, w))))
            equal(*answers, program.__name__)
