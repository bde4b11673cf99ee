"""Lines that compute: of whole numbers, floats and conditions, over dimensions, and in place."""

from __future__ import annotations

import torch

from .drawer import SIZES, Drawer, floats, ints


def whole(d: Drawer) -> str | None:
    """Arithmetic of whole numbers."""
    if (found := d.pair(ints)) is None:
        return None
    (name, other), random = found, d.random
    if other in d.values and floats(d.values[other]):
        other = name
    c = random.choice((1, 2, 3, 4, 5, 7, 8, 16, 100, -1, -2, -3, -7))
    p = abs(c)
    return random.choice(
        (
            f"{name} + {other}", f"{name} - {other}", f"{name} * {other}", f"{name} + {c}", f"{name} * {c}", f"{name} - {c}", f"{c} - {name}", f"{name} // {c if c != -1 else 3}",
            f"{name} % {c}", f"torch.div({name}, {p}, rounding_mode='trunc')", f"torch.div({name}, {p}, rounding_mode='floor')", f"torch.fmod({name}, {c if c != -1 else 3})",
            f"{name}.clamp(-{p}, {p})", f"{name}.clamp(min={p})", f"{name}.clamp(max={p})", f"{name}.abs()", f"-{name}", f"{name} ^ {p}", f"{name} & {p}", f"{name} | {p}", f"~{name}",
            f"{name} >> {p % 7}", f"{name} << {p % 5}", f"torch.minimum({name}, {other})", f"torch.maximum({name}, {other})", f"{name}.sign()", f"{name}.square()", f"{name}.to({d.dtype()})",
            f"{name}.to({d.dtype()})", f"{name}.to(torch.float32).clamp(-99, 99)", f"{name} // ({other} & 7 | 1)", f"{name} % ({other} & 7 | 1)", f"{name} > {c}", f"{name} == {other}",
            f"{name} <= {other}", f"{name} != {c}", f"{name}.to({d.dtype()}) * {p} % {p + 1}", f"torch.where({name} % 2 == 0, {name}, {other})", f"({name} * {p} + {c}) // {p}",
            f"({name} * {p} + {other} % {p}) // {p}", f"({name} % {p + 5}) // {p}", f"({name} // {p}) % {p + 1}", f"({name} + {p} * {other}) % {p}", f"torch.remainder({name}, -{p})",
        )
    )  # fmt: skip


def float_(d: Drawer) -> str | None:
    """Arithmetic of floats, without rounding."""
    if (found := d.pair(floats)) is None:
        return None
    (name, other), random = found, d.random
    c = random.choice((1, 2, 3, 0.5, -1, -2))
    return random.choice(
        (
            f"{name} + {other}", f"{name} - {other}", f"{name} * {c}", f"{name} + {c}", f"-{name}", f"{name}.abs()", f"{name}.clamp(-2, 3)", f"torch.maximum({name}, {name} * {c})",
            f"torch.where({name}.detach() * 0 == 0, {name}, {c})", f"{name}.relu()", f"{name} * {other}", f"{name}.to(torch.float64)", f"{name} * ({other} != 0)",
        )
    )  # fmt: skip


def decided(d: Drawer) -> str | None:
    """By floats, which are exact."""
    if (found := d.pair(floats, exact=True)) is None:
        return None
    name, other = found
    return d.random.choice(
        (
            f"{name} > 0", f"{name} >= {other}", f"{name}.floor()", f"{name}.trunc().clamp(0, 99).to({d.dtype()})",
            f"torch.where({name} > 0, {name}, {other})", f"{name}.masked_fill({name} < 0, 0)", f"{name}.round()", f"{name}.sign()", f"{name}.ceil()",
            f"{name}.argmax({d.number(-1, 1)})", f"torch.remainder({name}, 3)", f"torch.fmod({name}, 3)", f"{name}.floor() // 2",
        )
    )  # fmt: skip


def logical(d: Drawer) -> str | None:
    if (found := d.pair(lambda t: t.dtype == torch.bool)) is None:
        return None
    name, other = found
    return d.random.choice(
        (
            f"~{name}", f"{name} & {name}.flip(-1)", f"{name}.to(torch.{d.random.choice(('int8', 'int64', 'float32', 'uint8'))})", f"torch.where({name}, {other}, 1)",
            f"torch.where({name}, {other}, {other}.roll(1))", f"{name}.any(-1)", f"{name}.all(0)", f"{name}.cumsum(-1)", f"{name} + {other}", f"{name}.sum(0)", f"{name} | ({other} != 0)",
        )
    )  # fmt: skip


def reduced(d: Drawer) -> str | None:
    name = d.pick()
    assert name is not None
    t, random = d.values[name], d.random
    dims = t.dim()
    some = random.sample(range(dims), random.randint(1, dims)) if dims else []
    dim = random.randrange(-dims, dims) if dims else 0
    keep = random.choice(("", ", keepdim=True"))
    texts = [
        f"{name}.sum({some}{keep})",
        f"{name}.amax({some}{keep})",
        f"{name}.amin({some}{keep})",
        f"{name}.cumsum({dim})",
        f"{name}.count_nonzero({dim})",
        f"{name}.any({dim}{keep})",
    ]
    texts += [
        f"{name}.sum()",
        f"{name}.prod({dim})" if ints(t) else f"{name}.sum({dim})",
        f"{name}.cummax({dim})[0]",
        f"{name}.sort(dim={dim}, stable=True)[0]",
        f"{name}.max({dim})[0]",
    ]
    if name not in d.inexact:
        texts += [f"{name}.argmax({dim}{keep})", f"{name}.argmin({dim}{keep})", f"{name}.argsort({dim}, stable=True)"]
    if t.is_floating_point():
        texts += [f"{name}.mean({some}{keep})"]
    return random.choice(texts)


def inexact(d: Drawer) -> str | None:
    name = d.pick(floats)
    if name is None:
        return None
    return d.random.choice(
        (f"{name}.sin()", f"{name}.sigmoid()", f"{name}.softmax(-1)", f"{name} / 3", f"{name}.tanh()")
    )


def in_place(d: Drawer) -> str | None:
    random = d.random
    name = d.pick(lambda t: not (t.is_leaf and t.requires_grad))
    if name is None or name in d.overlapping:
        return None
    t = d.values[name]
    if not t.dim():
        return f"!{name}.add_(1)"
    dim = random.randrange(t.dim())
    target = random.choice(
        (
            name,
            name,
            f"{name}[{d.slices(tuple(t.shape))}]",
            f"{name}.transpose(0, {dim})",
            f"{name}.reshape(-1)[{d.slices((t.numel(),))}]",
            f"{name}.select({dim}, 0)",
        )
    )
    kind = random.randrange(8)
    c = random.randint(0, 5)
    if kind == 0:
        return f"!{target}.add_({c})"
    if kind == 1:
        return f"!{target}.copy_({target}.flip(0) + {c})"
    if kind == 2 and target != name and "transpose" not in target and "reshape" not in target:
        return f"!{target}.fill_({c})"
    if kind == 3:
        return f"!{target}.mul_(arange({t.size(-1)}, torch.int8) % 3)"
    if kind == 4 and t.size(0):
        index = d.positions((random.choice(SIZES),), t.size(0))
        return f"!{name}[{index}] = {c}"
    if kind == 5:
        return f"!{name}.masked_fill_({name}.detach() * 0 == 0, {c})" if name not in d.inexact else None
    if kind == 6:
        return f"!{target}.clamp_(0, {c})"
    return f"!{target}.sub_({target}.roll(1))"
