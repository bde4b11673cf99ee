"""Programs as they are written: inner loops, penalties, Jacobians by rows, functions of autograd within other constructs. Registered beside those
of `autograd_inside`."""

from __future__ import annotations

import torch
from autograd_custom import Exp
from autograd_inside import program

bound_apply = Exp.apply


@program(breaks=True)
def broken_after(m, x):
    loss = m(x).sum()
    loss.backward()
    print(end="")
    return loss * 2, loss


@program()
def bound(m, x):
    return bound_apply(m(x)).sum()


@program()
def in_checkpoint(m, x):
    return torch.utils.checkpoint.checkpoint(lambda t: Exp.apply(m(t)), x, use_reentrant=False).sum()


@program(breaks=True)
def in_checkpoint_hook(m, x):
    def f(t):
        h = m[0](t)
        h.register_hook(lambda g: g * 2)
        return m[2](h.tanh())

    return torch.utils.checkpoint.checkpoint(f, x, use_reentrant=False).sum()


@program()
def in_cond(m, x):
    return torch.cond(x.sum() > 100, lambda t: Exp.apply(t), lambda t: t * 2, (m(x),)).sum()


@program()
def try_finally(m, x):
    try:
        m(x).sum().backward()
    finally:
        m.zero_grad()
    return x * 2


@program()
def cond_on_grad(m, x):
    m(x).sum().backward()
    for p in m.parameters():
        if p.grad is not None:
            p.grad.div_(2)


@program()
def same_grad(m, x):
    g = torch.ones(5)
    m[0].bias.grad = g
    (m[0].bias * 2).sum().backward()
    return g


@program()
def nested_fn(m, x):
    def loss_of(y):
        out = m(y).pow(2).sum()
        out.backward()
        return out

    return [loss_of(x * i) for i in range(3)]


@program()
def view_update(m, x):
    w = m[0].weight
    w[0].sum().backward()
    with torch.no_grad():
        w[0] -= w.grad[0]


@program()
def inplace_before(m, x):
    h = m[0](x)
    h.tanh_()
    h.sum().backward()


@program(breaks=True)
def saved_then_written(m, x):
    y = m[0].weight.exp()
    s = y.sum()
    try:
        with torch.no_grad():
            y.mul_(2)
        s.backward()
    except RuntimeError as e:
        return str(e)[:40]


@program()
def grads_dict(m, x):
    gs = dict(zip([n for n, _ in m.named_parameters()], torch.autograd.grad(m(x).sum(), tuple(m.parameters()))))
    with torch.no_grad():
        for n, p in m.named_parameters():
            p.add_(gs[n], alpha=-0.1)
    return list(gs)


@program()
def enable_inside_no_grad(m, x):
    with torch.no_grad():
        y = x.clone()
        for _ in range(2):
            with torch.enable_grad():
                z = y.detach().requires_grad_()
                total = m(z).pow(2).sum()
                (g,) = torch.autograd.grad(total, z)
            y = y - 0.1 * g
    return y


@program()
def clone_param_leaf(m, x):
    fast = {n: p.clone() for n, p in m.named_parameters()}
    loss = torch.func.functional_call(m, fast, (x,)).pow(2).sum()
    gs = torch.autograd.grad(loss, list(fast.values()), create_graph=True)
    fast = {n: p - 0.1 * g for (n, p), g in zip(fast.items(), gs)}
    outer = torch.func.functional_call(m, fast, (x,)).pow(2).sum()
    outer.backward()
    return outer.detach()


@program()
def jac_rows(m, x):
    x = x.detach().requires_grad_()
    y = m(x).sum(0)
    return torch.stack([torch.autograd.grad(y[i], x, retain_graph=True)[0] for i in range(2)])


@program()
def functional_jacobian(m, x):
    return torch.autograd.functional.jacobian(lambda t: m(t).sum(0), x)


@program()
def hess(m, x):
    return torch.autograd.functional.hessian(lambda t: m(t).pow(2).sum(), x)
