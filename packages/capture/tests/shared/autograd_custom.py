"""Programs with gradients of their own: functions of autograd, and hooks on tensors. Registered beside those of `autograd_inside`."""

from __future__ import annotations

import torch
from autograd_inside import plain, program
from torch import nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable


class Exp(Function):
    @staticmethod
    def forward(ctx, x):
        result = x.exp()
        ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx, g):
        (result,) = ctx.saved_tensors
        return g * result * 2


class Scaled(Function):
    @staticmethod
    def forward(ctx, x, by, flag=True):
        ctx.by = by
        return x * by if flag else x.clone()

    @staticmethod
    def backward(ctx, g):
        return g * ctx.by, None, None


class Rounded(Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, g):
        return g


class Reversed(Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        return -g


class GivenBack(Function):
    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, g):
        return g * 3


class WithSetup(Function):
    @staticmethod
    def forward(x, w):
        return x @ w, x.sum()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx, g, _):
        x, w = ctx.saved_tensors
        return g @ w.t(), x.t() @ g


class Once(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.relu()

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * (x > 0) if ctx.needs_input_grad[0] else None


class InPlace(Function):
    @staticmethod
    def forward(ctx, x):
        x.mul_(2)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx, g):
        return g * 2


class Several(Function):
    @staticmethod
    def forward(ctx, x, w, power):
        ctx.save_for_backward(x, w)
        ctx.power = power
        return x * w, {"sum": 1}, x + w

    @staticmethod
    def backward(ctx, ga, _, gb):
        x, w = ctx.saved_tensors
        return ga * w + gb, ga * x + gb if ctx.needs_input_grad[1] else None, None


class Intermediate(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.inner = x.tanh()
        ctx.size = x.shape[0]
        return ctx.inner.sum()

    @staticmethod
    def backward(ctx, g):
        return (g * (1 - ctx.inner**2)).view(ctx.size, -1)


class Flattened(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.shape = x.shape
        return x * 1

    @staticmethod
    def backward(ctx, g):
        if not g.is_contiguous():
            g = g.contiguous()
        return g.view(-1).mul(2).view(ctx.shape)


class Counting(Function):
    calls = []

    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, g):
        Counting.calls.append(1)
        return g * len(Counting.calls)


class Mixed(Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return g @ w.t().to(g.dtype), x.t().to(g.dtype) @ g


class WithParameter(Function):
    @staticmethod
    def forward(ctx, x, owner):
        ctx.owner = owner
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * ctx.owner.bias.mean(), None


@program()
def exponential(m, x):
    return Exp.apply(m(x)).sum()


@program()
def exponential_and_back(m, x):
    Exp.apply(m(x)).sum().backward()


@program()
def exponential_without_gradient(m, x):
    return Exp.apply(x)


@program()
def exponential_in_no_grad(m, x):
    with torch.no_grad():
        return Exp.apply(m(x))


@program()
def exponential_twice(m, x):
    x = x.clone().requires_grad_()
    (g,) = torch.autograd.grad(Exp.apply(x).sum(), x, create_graph=True)
    g.sum().backward()
    return x.grad


@program()
def scaled(m, x):
    return Scaled.apply(m(x), 3.0).sum(), Scaled.apply(m(x), 2, False)


@program()
def straight_through(m, x):
    return Rounded.apply(m(x)).sum()


@program()
def reversed_gradient(m, x):
    return Reversed.apply(m(x)).sum()


@program()
def given_back(m, x):
    y = m(x)
    z = GivenBack.apply(y)
    return z, z is y


@program()
def with_setup(m, x):
    product, total = WithSetup.apply(m(x), m[2].weight)
    return product.sum() + total, total.requires_grad


@program()
def once(m, x):
    return Once.apply(m(x)).sum()


@program()
def once_differentiated_twice(m, x):
    x = x.clone().requires_grad_()
    (g,) = torch.autograd.grad(Once.apply(x).sum(), x, create_graph=True)
    return g.detach(), g.requires_grad


@program()
def in_place(m, x):
    y = m(x) * 1
    z = InPlace.apply(y)
    return z.sum(), z is y


@program()
def several(m, x):
    y = m(x)
    a, told, b = Several.apply(y, y.detach() * 2, 3)
    return (a * b).sum(), told


@program()
def one_of_several_used(m, x):
    return Several.apply(m(x), m(x), 3)[0].sum()


@program()
def intermediate(m, x):
    return Intermediate.apply(m(x))


@program()
def gradient_that_is_expanded(m, x):
    return Flattened.apply(m(x)).sum()


@program()
def gradient_that_is_transposed(m, x):
    return (Flattened.apply(m(x)).t() * torch.arange(3.0)).sum()


@program(breaks=True)
def backward_with_effects(m, x):
    Counting.calls.clear()
    y = Counting.apply(m(x)).sum()
    y.backward()
    return list(Counting.calls)


@program()
def mixed_precision(m, x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = Mixed.apply(x, m[0].weight.t())
    return y.float().sum()


@program()
def within_autocast(m, x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = Exp.apply(m(x)) + Flattened.apply(m(x))
    return y.float().sum()


@program(breaks=True)
def parameter_in_the_backward(m, x):
    return WithParameter.apply(m(x), m[0]).sum()


@program()
def frozen_input(m, x):
    return Several.apply(x, m(x)[:, :1], 2)[0].sum()


# Hooks


@program()
def hook_changes(m, x):
    h = m[0](x)
    h.register_hook(lambda g: g * 2)
    return m[2](h.tanh()).sum()


@program()
def hook_changes_and_back(m, x):
    h = m[0](x)
    h.register_hook(lambda g: g * 2)
    m[2](h.tanh()).sum().backward()


@program()
def hooks_one_after_the_other(m, x):
    h = m[0](x)
    scale = m[0].bias.detach()
    h.register_hook(lambda g: g + 1)
    h.register_hook(lambda g: g * scale)
    return m[2](h.tanh()).sum()


@program()
def hook_changes_nothing(m, x):
    h = m[0](x)
    h.register_hook(lambda g: None)
    return m[2](h.tanh()).sum()


@program()
def hook_removed(m, x):
    h = m[0](x)
    handle = h.register_hook(lambda g: g * 2)
    handle.remove()
    return m[2](h.tanh()).sum()


@program()
def hook_removed_after_one_way_back(m, x):
    h = m[0](x)
    handle = h.register_hook(lambda g: g * 2)
    loss = m[2](h.tanh()).sum()
    loss.backward(retain_graph=True)
    handle.remove()
    loss.backward()


@program()
def hook_on_a_parameter_for_a_time(m, x):
    handle = m[0].weight.register_hook(lambda g: g * 3)
    m(x).sum().backward()
    handle.remove()


@program(breaks=True)
def hook_on_a_parameter_that_stays(m, x):
    m[0].weight.register_hook(lambda g: g * 3)
    return m(x).sum()


@program()
def hook_with_effects(m, x):
    seen = []
    h = m[0](x)
    h.register_hook(seen.append)
    m[2](h.tanh()).sum().backward()
    return seen


@program()
def hooks_with_effects_in_order(m, x):
    seen = []

    def noting(name, by):
        def hook(g):
            seen.append((name, g.sum()))
            return g * by

        return hook

    h = m[0](x)
    t = h.tanh()
    h.register_hook(noting("h", 2))
    t.register_hook(noting("t", 3))
    h.register_hook(noting("h again", 5))
    (m[2](t).sum() + h.sum()).backward()
    return seen


@program()
def hook_with_effects_called_twice(m, x):
    seen = {}
    h = m[0](x)
    handle = h.register_hook(lambda g: seen.update({len(seen): g}))
    loss = m[2](h.tanh()).sum()
    loss.backward(retain_graph=True)
    torch.autograd.grad(loss, m[0].bias, retain_graph=True)
    torch.autograd.grad(loss, m[2].bias, retain_graph=True)
    handle.remove()
    loss.backward()
    return list(seen.values())


@program()
def hook_keeps_for_later(m, x):
    kept = []
    h = m[0](x)
    h.retain_grad()
    h.register_hook(lambda g: kept.append(g) or g * 2)
    m[2](h.tanh()).sum().backward()
    return kept, h.grad


@program()
def hook_changes_what_is_kept(m, x):
    h = m[0](x)
    h.register_hook(lambda g: g * 2)
    h.retain_grad()
    m[2](h.tanh()).sum().backward()
    return h.grad


@program()
def hook_beside_other_inputs(m, x):
    h = m[0](x)
    h.register_hook(lambda g: g * 2)
    return torch.autograd.grad(m[2](h.tanh()).sum(), [h, m[0].bias])


@program(breaks=True)
def hook_prints(m, x):
    h = m[0](x)
    h.register_hook(lambda g: print(end="", flush=g.sum().item() > 0))
    m[2](h.tanh()).sum().backward()


@program(breaks=True)
def hook_looks_at_gradients(m, x):
    m.zero_grad()
    seen = []
    h = m[0](x)
    h.register_hook(lambda g: seen.append(m[2].bias.grad))
    m[2](h.tanh()).sum().backward()
    return seen


@program(breaks=True)
def hook_with_effects_for_later(m, x):
    h = m[0](x)
    m.seen = []
    h.register_hook(m.seen.append)
    return m[2](h.tanh()).sum()


@program(breaks=True)
def hook_on_what_is_given_back(m, x):
    h = m[0](x)
    h.register_hook(lambda g: g * 2)
    return h, m[2](h.tanh()).sum()


# Hooks that hang on parameters


def hooked() -> nn.Module:
    made = plain()
    made[0].weight.register_hook(lambda g: g.clamp(-0.1, 0.1))
    made[0].weight.register_hook(lambda g: g * 2)
    return made


@program(hooked)
def hooks_on_a_parameter(m, x):
    m(x).sum().backward()


class Noting:
    def __init__(self, seen):
        self.seen = seen

    def __call__(self, g):
        self.seen.append(g.sum())


def noted() -> nn.Module:
    made = plain()
    made.seen = []
    for p in made.parameters():
        p.register_hook(Noting(made.seen))
    return made


@program(noted)
def hooks_in_the_order_of_the_way_back(m, x):
    m.seen.clear()
    m(x).sum().backward()
    return list(m.seen)


def stepping() -> nn.Module:
    made = plain()
    for p in made.parameters():
        p.register_post_accumulate_grad_hook(_stepped)
    return made


def _stepped(p):
    p.sub_(p.grad, alpha=0.1)
    p.grad = None


@program(stepping)
def steps_within_the_backward(m, x):
    loss = m(x).pow(2).mean()
    loss.backward()
    return loss.detach(), [p.grad for p in m.parameters()]


def accumulated() -> nn.Module:
    made = plain()
    made.seen = []
    for name, p in made.named_parameters():
        p.register_post_accumulate_grad_hook(lambda p, name=name: made.seen.append((name, p.grad.sum())))
    return made


@program(accumulated)
def told_once_accumulated(m, x):
    m.seen.clear()
    m(x).sum().backward()
    return list(m.seen)


@program(hooked, breaks=True)
def hooks_on_inputs_and_on_what_was_computed(m, x):
    seen = []
    h = m[0](x)
    h.register_hook(seen.append)
    m[2](h.tanh()).sum().backward()
    return seen
