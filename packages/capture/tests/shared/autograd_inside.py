"""Programs that differentiate, and act on autograd's state of tensors, within the captured function: `PROGRAMS`, of a model and an input.

Each is run eagerly and captured, twice or more; compared are results, parameters, their gradients, and what a backward from the results
gives. Those in `BREAKS` need not be one graph.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

Program = Callable[[Any, torch.Tensor], Any]
Make = Callable[[], nn.Module]

PROGRAMS: dict[str, tuple[Program, Make]] = {}
BREAKS: set[str] = set()


def plain() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2))


def program(make: Make = plain, *, breaks: bool = False) -> Callable[[Program], Program]:
    def register(function: Program) -> Program:
        PROGRAMS[function.__name__] = function, make
        if breaks:
            BREAKS.add(function.__name__)
        return function

    return register


# backward


@program()
def loss_is_given_back(m, x):
    loss = m(x).pow(2).mean()
    loss.backward()
    return loss


@program()
def loss_and_its_value(m, x):
    loss = m(x).pow(2).mean()
    loss.backward()
    return loss, loss.detach(), loss.data


@program()
def result_that_can_go_back_again(m, x):
    total = (m[0].bias + 1).sum()
    total.backward()
    return total


@program()
def gradients_none_first(m, x):
    m.zero_grad()
    m(x).pow(2).mean().backward()
    return [p.grad for p in m.parameters()]


@program()
def gradients_zeroed(m, x):
    m.zero_grad(set_to_none=False)
    m(x).pow(2).mean().backward()


@program()
def kept_graph(m, x):
    loss = m(x).pow(2).mean()
    loss.backward(retain_graph=True)
    loss.backward()


@program()
def kept_graph_leaves(m, x):
    loss = m(x).pow(2).mean()
    loss.backward(retain_graph=True)
    return loss


@program()
def two_losses(m, x):
    y = m(x)
    y.mean().backward(retain_graph=True)
    y.sum().backward()
    return y.detach()


@program()
def gradient_given(m, x):
    y = m(x)
    y.backward(gradient=torch.ones_like(y) * 2)


@program()
def gradient_given_becomes_the_gradient(m, x):
    given = torch.ones(5)
    (m[0].bias + 1).backward(given)
    given.mul_(3)
    return given


@program()
def some_inputs(m, x):
    m(x).sum().backward(inputs=[m[0].weight])


@program()
def by_function(m, x):
    y = m(x)
    torch.autograd.backward([y.sum(), y], [None, torch.ones_like(y)])


@program()
def differentiable_gradients(m, x):
    m(x).pow(2).sum().backward(create_graph=True)
    return sum(p.grad.pow(2).sum() for p in m.parameters()).detach()


@program()
def one_tensor_is_two_gradients(m, x):
    (m[0].bias + m[0].weight[:, 0]).sum().backward()
    return m[0].bias.grad


@program()
def transposed_gradient(m, x):
    (m[0].weight.t().contiguous() * 2).sum().backward()
    return m[0].weight.grad.stride()


def frozen() -> nn.Module:
    made = plain()
    made[0].requires_grad_(False)
    return made


@program(frozen)
def frozen_parameters(m, x):
    m(x).sum().backward()
    return m[0].weight.grad


def shared() -> nn.Module:
    made = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))
    made[2].weight = made[0].weight
    return made


@program(shared)
def shared_parameters(m, x):
    m(x).sum().backward()
    return m[0].weight.grad is m[2].weight.grad


@program()
def in_no_grad(m, x):
    loss = m(x).sum()
    with torch.no_grad():
        loss.backward()
    return m[0].weight.grad.requires_grad


@program()
def under_autocast(m, x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = m(x).float().pow(2).mean()
    loss.backward()


@program()
def kept_gradient_of_what_was_computed(m, x):
    h = m[0](x)
    h.retain_grad()
    m[2](h.tanh()).sum().backward()
    return h.grad


@program(breaks=True)
def input_computed_before(m, x):
    h = m[0](x)
    compile("0", "", "eval")
    h.sum().backward()


# grad


@program()
def gradients_by_function(m, x):
    return torch.autograd.grad(m(x).pow(2).sum(), list(m.parameters()))


@program()
def gradient_of_one(m, x):
    y = m(x)
    return torch.autograd.grad(y, m[0].weight, torch.ones_like(y))


@program()
def gradient_not_used(m, x):
    return torch.autograd.grad(m[0](x).sum(), list(m.parameters()), allow_unused=True)


@program()
def gradient_not_used_is_zeros(m, x):
    return torch.autograd.grad(m[0](x).sum(), list(m.parameters()), materialize_grads=True)


@program(breaks=True)
def gradient_not_used_raises(m, x):
    try:
        return torch.autograd.grad(m[0](x).sum(), list(m.parameters()))
    except RuntimeError as error:
        return str(error)


@program()
def gradient_by_what_was_computed(m, x):
    h = m[0](x)
    return torch.autograd.grad(m[2](h.tanh()).sum(), h)


@program()
def penalty_within(m, x):
    x = x.clone().requires_grad_()
    (g,) = torch.autograd.grad(m(x).sum(), x, create_graph=True)
    (g.norm(2, dim=1) - 1).pow(2).mean().backward()


@program()
def penalty_given_back(m, x):
    x = x.clone().requires_grad_()
    (g,) = torch.autograd.grad(m(x).sum(), x, create_graph=True)
    return (g.norm(2, dim=1) - 1).pow(2).mean()


@program()
def second_derivatives(m, x):
    t = x[:, :1].detach().clone().requires_grad_()
    u = m(torch.cat([t, x[:, 1:]], 1))[:, :1]
    (du,) = torch.autograd.grad(u, t, torch.ones_like(u), create_graph=True)
    (d2,) = torch.autograd.grad(du, t, torch.ones_like(du), create_graph=True)
    loss = ((d2 + u) ** 2).mean()
    loss.backward()
    return loss.detach()


# leaves


@program()
def leaf_made(m, x):
    w = torch.ones(4, requires_grad=True)
    (x * w).sum().backward()
    return w.grad


@program()
def leaf_made_and_given_back(m, x):
    w = torch.ones(4, requires_grad=True)
    (x * w).sum().backward()
    return w


@program(breaks=True)
def leaf_made_and_what_depends_on_it(m, x):
    w = torch.ones(4, requires_grad=True)
    return w, (x * w).sum()


@program(breaks=True)
def only_a_leaf_that_is_gone_requires_grad(m, x):
    w = torch.ones(4, requires_grad=True)
    return (x * w).sum()


@program()
def copy_becomes_a_leaf(m, x):
    w = x.clone()
    w.requires_grad = True
    (w * w).sum().backward()
    return w.grad, w.requires_grad, w.is_leaf, w.grad_fn


@program()
def input_becomes_a_leaf(m, x):
    x.requires_grad_()
    (x * x).sum().backward()
    return x.grad


@program()
def parameter_is_frozen(m, x):
    m[0].weight.requires_grad_(False)
    return m(x).sum()


@program(breaks=True)
def input_becomes_a_leaf_of_what_is_given_back(m, x):
    x.requires_grad_()
    return (x * x).sum()


@program()
def places(m, x):
    return x.is_leaf, m(x).is_leaf, m[0].weight.is_leaf, m[0].weight.grad_fn


# gradients and data, read and set


@program()
def step_by_hand(m, x):
    m(x).pow(2).mean().backward()
    with torch.no_grad():
        for p in m.parameters():
            p -= 0.1 * p.grad
            p.grad = None


@program()
def step_on_data(m, x):
    m(x).pow(2).mean().backward()
    for p in m.parameters():
        p.data.sub_(0.1 * p.grad.data)
        p.grad.zero_()


@program()
def step_replaces_data(m, x):
    m(x).pow(2).mean().backward()
    for p in m.parameters():
        p.data = p.data - 0.1 * p.grad
        p.grad.data.zero_()


@program()
def gradient_changed(m, x):
    m(x).sum().backward()
    m[0].weight.grad.mul_(2)
    m[0].weight.grad.data.clamp_(-1, 1)


@program()
def gradient_deleted(m, x):
    m(x).sum().backward()
    del m[0].weight.grad
    return m[0].weight.grad


@program()
def data_read(m, x):
    data = m[0].weight.data
    return data.sum(), data.requires_grad, m(x).data + 1, x.data


@program()
def data_written(m, x):
    m[0].weight.data.mul_(0.5)
    m[0].bias.data.copy_(torch.zeros(5))
    return m(x)


@program()
def data_written_of_what_was_kept(m, x):
    y = (m[0].weight * m[0].weight).sum()
    m[0].weight.data.mul_(2)
    return y


@program()
def data_of_an_input_written(m, x):
    x.data[0] = 7
    return x * 2


@program(breaks=True)
def data_set_below_a_result(m, x):
    m[0].weight.data = m[0].weight.data * 0.5
    return m(x)


@program()
def detached_in_place(m, x):
    y = m(x)
    z = y * 2
    y.detach_()
    return y, y.requires_grad, z


# Running


def _same(a: Any, b: Any) -> bool:
    if type(a) is not type(b):
        return False
    if isinstance(a, torch.Tensor):
        kinds = [(t.dtype, t.shape, t.stride(), t.requires_grad, t.is_leaf) for t in (a, b)]
        if a.is_leaf and a.requires_grad and b.is_leaf and not _same(a.grad, b.grad):
            return False
        return kinds[0] == kinds[1] and torch.allclose(a.detach(), b.detach(), atol=1e-6, equal_nan=True)
    if isinstance(a, tuple | list):
        return len(a) == len(b) and all(map(_same, a, b))
    return bool(a == b)


def _copied(tensor: Any) -> Any:
    return None if tensor is None else tensor.detach().clone()


def _state(model: nn.Module) -> list[Any]:
    found: list[Any] = []
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        gradient = tensor.grad
        found += [name, _copied(tensor), _copied(gradient), gradient is not None and gradient.requires_grad]
    return found


def _backwards(result: Any) -> str:
    """Go back from all results that can; in words what that raises."""
    results = result if isinstance(result, tuple | list) else [result]
    try:
        for each in results:
            if isinstance(each, torch.Tensor) and each.requires_grad and each.grad_fn is not None:
                each.sum().backward(retain_graph=True)
    except RuntimeError as error:
        return str(error)[:60]
    return ""


def run(function: Program, model: nn.Module, calls: int = 3) -> list[Any]:
    """What there is to compare after each call."""
    found: list[Any] = []
    for number in range(calls):
        torch.manual_seed(number)
        x = torch.linspace(-1, 1, 12).reshape(3, 4) * (number + 1)
        result = function(model, x)
        found += [
            copy.copy(result),
            _state(model),
            _backwards(result),
            _state(model),
            x,
            _copied(x.grad),
            torch.rand(1),
        ]
    return found


def check(name: str, compiled: Callable[[Program], Program]) -> None:
    """Assert that a program does captured what it does in eager."""
    function, make = PROGRAMS[name]
    expected, got = run(function, make()), run(compiled(function), make())
    assert _same(expected, got), f"{expected}\n{got}"
