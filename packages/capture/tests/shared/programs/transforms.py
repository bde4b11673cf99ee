# ruff: noqa
"""`torch.func` and `torch.vmap`: transforms of functions, nested, over closures, modules, structures."""

from __future__ import annotations

import functools

import torch
from torch.func import (
    functional_call,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    stack_module_state,
    vjp,
    vmap,
)

from .registry import program

torch.manual_seed(0)
LINEAR = torch.nn.Linear(4, 2)
NETWORK = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh(), torch.nn.Linear(3, 1))
LAYERS = [torch.nn.Linear(4, 2) for _ in range(3)]
STACKED, STACKED_BUFFERS = stack_module_state(LAYERS)


def cube(v):
    return (v**3).sum()


OUTSIDE = vmap(grad(cube))


@program
def vmap_over_rows(x):
    return torch.vmap(lambda row: row.sin() * row.shape[0] + row.dim())(x)


@program
def vmap_over_columns(x):
    return vmap(lambda c: c / (c.norm() + 1), in_dims=1, out_dims=1)(x)


@program
def vmap_some_inputs(x):
    return vmap(torch.dot, in_dims=(0, None))(x, x[0]), vmap(torch.mul, in_dims=(-1, None), out_dims=-1)(x, 2.0)


@program
def vmap_several_outputs(x):
    return vmap(lambda row: (row * 2, {"sum": row.sum(), "all": [row]}), out_dims=(1, 0))(x)


@program
def vmap_structures(x):
    return vmap(lambda d, k: d["x"] * k + d["y"][0], in_dims=({"x": 0, "y": [None]}, None))({"x": x, "y": [x[0]]}, 3.0)


@program
def vmap_keywords(x):
    return vmap(lambda row, *, by: row * by)(x, by=x)


@program
def vmap_nested_twice(x):
    return vmap(vmap(torch.dot, in_dims=(None, 0)), in_dims=(0, None))(x, x)


@program
def vmap_in_chunks(x):
    return vmap(lambda row: row.cumsum(0), chunk_size=2)(x)


@program
def vmap_with_other_draws(x):
    return vmap(lambda row: row + torch.rand_like(row), randomness="different")(x)


@program
def vmap_with_one_draw(x):
    return vmap(lambda row: row + torch.randn(4), randomness="same")(x)


@program
def vmap_dropped(x):
    return vmap(lambda row: torch.nn.functional.dropout(row, 0.5), randomness="different")(x)


@program
def vmap_of_a_closure(x):
    weight = x.t() @ x
    return vmap(lambda row: row @ weight)(x)


@program
def vmap_of_a_module(x):
    return vmap(LINEAR)(x)


@program
def vmap_of_a_partial(x):
    return vmap(functools.partial(torch.add, alpha=2), in_dims=(0, None))(x, x[0])


@program
def vmap_writes_to_its_own(x):
    def f(row):
        made = torch.zeros_like(row)
        made.add_(row)
        made[0] = 7
        return made

    return vmap(f)(x)


@program
def vmap_writes_to_its_argument(x):
    vmap(lambda row: row.mul_(2))(x)
    return x


@program
def vmap_gives_what_is_not_batched(x):
    return vmap(lambda row: (row, torch.ones(2)))(x)


@program
def vmap_out_dims_none(x):
    return vmap(lambda row: (row, 2.0), out_dims=(0, None))(x)


@program
def vmap_gathers(x):
    return vmap(lambda row, i: row[i])(x, torch.tensor([0, 1, 2]))


@program
def vmap_of_attention(x):
    return vmap(lambda row: torch.nn.functional.scaled_dot_product_attention(row[None], row[None], row[None]))(x)


@program
def vmap_of_a_convolution(x):
    return vmap(lambda row: torch.nn.functional.conv1d(row[None, None], torch.ones(1, 1, 3)))(x)


@program
def vmap_of_a_loop(x):
    def f(row):
        for i in range(3):
            row = row * i + 1
        return row

    return vmap(f)(x)


@program
def vmap_between_operations(x):
    y = vmap(torch.sin)(x + 1)
    return y @ y.t()


@program
def vmap_notes_outside(x):
    seen = []

    def f(row):
        seen.append((tuple(row.shape), row.dtype, row.requires_grad))
        return row

    return vmap(f)(x), seen


@program
def grad_of_a_scalar(x):
    return grad(cube)(x)


@program
def grad_by_number(x):
    f = lambda a, b: (a * b.exp()).sum()
    return grad(f, argnums=1)(x, x), grad(f, argnums=(0, 1))(x, x), grad(f, argnums=-1)(x, x)


@program
def grad_with_more(x):
    return grad(lambda v: ((v**2).sum(), {"twice": v * 2}), has_aux=True)(x)


@program
def grad_and_its_value(x):
    return grad_and_value(cube)(x), grad_and_value(lambda v: (cube(v), v + 1), has_aux=True)(x)


@program
def grad_of_grad(x):
    return grad(lambda v: grad(cube)(v).sum())(x)


@program
def grad_of_a_structure(x):
    return grad(lambda d: (d["a"] ** 2 * d["b"][0]).sum())({"a": x, "b": (x + 1,)})


@program
def grad_of_what_is_not_used(x):
    return grad(lambda a, b: b.sum())(x, x)


@program
def grad_beside_a_captured_tensor(x):
    y = x * 2
    return grad(lambda v: (v * y).sum())(x), grad(lambda v: (v * y).sum())(y)


@program
def grad_where_it_is_off(x):
    with torch.no_grad():
        return grad(cube)(x), torch.is_grad_enabled()


@program
def grad_switched_off_within(x):
    def f(v):
        with torch.no_grad():
            c = v**2
        return (v - c).sum()

    return grad(f)(x)


@program
def grad_detached(x):
    return grad(lambda v: (v * v.detach()).sum())(x)


@program
def grad_asks_what_it_gets(x):
    return grad(lambda v: (v if v.requires_grad and torch.is_grad_enabled() else v * 2).sum())(x)


@program
def grad_masked(x):
    return grad(lambda v: v[v > 0].sum() + torch.where(v > 0, v, -v).sum())(x)


@program
def grad_steps(x):
    for _ in range(3):
        x = x - 0.1 * grad(cube)(x)
    return x


@program
def per_sample_gradients(x):
    parameters = {name: p.detach() for name, p in NETWORK.named_parameters()}
    loss = lambda p, row: functional_call(NETWORK, p, (row[None],)).pow(2).sum()
    return vmap(grad(loss), in_dims=(None, 0))(parameters, x)


@program
def transform_from_outside(x):
    return OUTSIDE(x) + 1


@program
def vjp_of_one(x):
    out, pull = vjp(torch.sin, x)
    return out, pull(torch.ones_like(out)), pull(out)


@program
def vjp_of_several(x):
    out, pull = vjp(lambda a, b: {"p": a * b, "s": a + b}, x, x + 1)
    return out, pull({"p": x, "s": x})


@program
def vjp_with_more(x):
    out, pull, more = vjp(lambda a: (a * 2, a.sum()), x, has_aux=True)
    return out, pull(x), more


@program
def vjp_batched(x):
    out, pull = vjp(lambda a: a**2, x[0])
    return vmap(pull)(torch.eye(4))


@program
def jvp_of_one(x):
    return jvp(torch.sin, (x,), (torch.ones_like(x),))


@program
def jvp_of_several(x):
    return jvp(lambda a, b: (a * b.exp(), a), (x, x), (x, x + 1)), jvp(lambda a: (a * a, a), (x,), (x,), has_aux=True)


@program
def jvp_of_what_does_not_depend(x):
    return jvp(lambda a: torch.ones(3), (x,), (x,))


@program
def jacobian_backward(x):
    return jacrev(lambda a: a.sin() * a.sum())(x), jacrev(lambda a: (a.sin(), a), has_aux=True)(x[0])


@program
def jacobian_in_chunks(x):
    f = lambda a: (a.sin(), a.sum())
    return jacrev(f, chunk_size=2)(x[0]), jacrev(f, chunk_size=1)(x[0])


@program
def jacobian_by_number(x):
    return jacrev(lambda a, b: a * b, argnums=(0, 1))(x[0], x[1]), jacfwd(lambda a, b: a * b, argnums=1)(x[0], x[1])


@program
def jacobian_forward(x):
    return jacfwd(lambda a: a.sin() * a.sum())(x), jacfwd(lambda a: (a.sin(), a), has_aux=True)(x[0])


@program
def jacobian_of_a_structure(x):
    return jacrev(lambda d: {"o": d["a"] * d["b"]})({"a": x[0], "b": x[1]})


@program
def hessian_of_a_scalar(x):
    f = lambda a: (a**3).sum() * a[0]
    return hessian(f)(x[0]), jacrev(jacrev(f))(x[0]), jacfwd(jacfwd(f))(x[0])


@program
def hessian_of_each_row(x):
    return vmap(hessian(lambda a: (a.tanh() * a.sum()).sum()))(x)


@program
def hessian_times_a_vector(x):
    ones = torch.ones_like(x)
    return jvp(grad(cube), (x,), (ones,)), vjp(grad(cube), x)[1](ones)


@program
def functional_call_of_a_module(x):
    by_name = {"weight": torch.ones(2, 4), "bias": torch.zeros(2)}
    return functional_call(LINEAR, by_name, (x,)), functional_call(LINEAR, {"weight": torch.ones(2, 4)}, x)


@program
def functional_call_leaves_the_module(x):
    before = LINEAR.weight
    functional_call(LINEAR, {"weight": torch.ones(2, 4)}, (x,))
    return LINEAR.weight is before


@program
def ensemble_of_modules(x):
    one = lambda p, b, v: functional_call(LAYERS[0], (p, b), (v,))
    return vmap(one, in_dims=(0, 0, None))(STACKED, STACKED_BUFFERS, x)


@program
def transformed_names(x):
    def named(v):
        "Words."
        return v.sum()

    made = grad(named)
    return made.__name__, made.__doc__, made.__wrapped__ is named, made(x)


@program
def a_print_within_breaks(x):
    def f(row):
        compile("0", "", "eval")
        return row.sin()

    return vmap(f)(x + 1) * 2


@program
def a_pullback_over_a_break(x):
    out, pull = vjp(torch.sin, x * 2)
    compile("0", "", "eval")
    return pull(out)


@program
def a_tensor_kept_from_within_breaks(x):
    kept = []

    def f(v):
        kept.append(v)
        return v.sum()

    g = grad(f)(x)
    compile("0", "", "eval")
    return g, kept[0] * 2


@program
def an_item_of_a_batch_breaks(x):
    return vmap(lambda row: row.sum().item())(x)


@program
def draws_forbidden_break(x):
    return vmap(lambda row: row + torch.rand(4))(x)


@program
def a_branch_on_a_batch_breaks(x):
    return vmap(lambda row: row if row.sum() > 0 else -row)(x)


@program
def grad_of_what_is_no_scalar_breaks(x):
    return grad(lambda v: v * 2)(x)


@program
def an_error_within_breaks(x):
    def f(row):
        raise ValueError("within")

    try:
        vmap(f)(x)
    except ValueError as error:
        said = str(error)
    return said, grad(cube)(x)


@program
def a_handler_within_breaks(x):
    def f(row):
        try:
            return row.view(7)
        except RuntimeError:
            return row * 3

    return vmap(f)(x)


@program
def writing_to_what_is_not_batched_breaks(x):
    total = torch.zeros(4)
    vmap(lambda row: total.add_(row))(x)
    return total


@program
def sizes_that_differ_break(x):
    return vmap(torch.add, in_dims=(0, 1))(x, x)


@program
def leaf_made_within_breaks(x):
    return vmap(lambda row: torch.zeros_like(row).requires_grad_().sum())(x)


@program
def control_flow_within_breaks(x):
    return vmap(lambda row: torch.cond(row.sum() > 0, torch.sin, torch.cos, (row,)))(x)


@program
def saved_tensor_hooks_around_break(x):
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        return grad(cube)(x)
