"""Lines that move elements: views, joins, padding, pooling and gathering."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .drawer import SIZES, Drawer, ints


def view(d: Drawer) -> str | None:
    name = d.pick()
    assert name is not None
    t, random = d.values[name], d.random
    dims = t.dim()
    if dims == 0:
        return f"{name}.expand({random.randint(1, 5)})"
    dim, other = random.randrange(-dims, dims), random.randrange(dims)
    n = t.size(dim)
    order = list(range(dims))
    random.shuffle(order)
    some = random.sample(range(dims), random.randint(1, dims))
    kind = random.randrange(30)
    k = random.randint(1, 3)
    if kind <= 3:
        return f"{name}[{d.slices(tuple(t.shape))}]"
    if kind <= 6:
        return f"{name}.{random.choice(('reshape', 'view', 'reshape'))}{d.shaped(d.shape(t.numel()), rest=True)}"
    if kind <= 8:
        return f"{name}.permute({', '.join(map(str, order))})"
    if kind == 9:
        return f"{name}.flip({some})"
    if kind == 10:
        return f"{name}.roll({[random.randint(-n - 2, n + 2) for _ in some]}, {some})"
    if kind == 11:
        return f"{name}.roll({random.randint(-9, 9)})"
    if kind == 12:
        size = random.randint(1, max(n, 1))
        return f"{name}.unfold({dim}, {size}, {random.randint(1, 3)})"
    if kind == 13:
        return f"{name}.chunk({k}, {dim})[{random.choice((0, -1))}]"
    if kind == 14:
        return f"{name}.split({k}, {dim})[{random.choice((0, -1))}]"
    if kind == 15:
        return f"{name}.narrow({dim}, {random.randint(0, n)}, {random.randint(0, n)})"
    if kind == 16:
        return f"{name}.diagonal({random.randint(-3, 3)}, {dim}, {other})"
    if kind == 17:
        return f"{name}.unsqueeze({dim})"
    if kind == 18:
        sizes = [random.randint(1, 5) if size == 1 else -1 for size in t.shape]
        return f"{name}.expand({', '.join(map(str, ([k] if random.random() < 0.4 else []) + sizes))})"
    if kind == 19:
        return f"{name}.repeat({', '.join(str(random.randint(1, 3)) for _ in range(dims))})"
    if kind == 20:
        return f"{name}.repeat_interleave({k}, {dim})"
    if kind == 21:
        return f"{name}.rot90({random.randint(-3, 3)})"
    if kind <= 23:
        return _strided(d, name, t)
    if kind == 24:
        return f"{name}.tensor_split({k}, {dim})[{random.randrange(k)}]"
    if kind == 25:
        return f"{name}.unflatten({dim}, {d.shaped(d.shape(n), rest=True)})"
    if kind == 26:
        return f"{name}.select({dim}, {random.randint(-n, max(n - 1, -n))})"
    if kind == 27:
        return f"{name}.{random.choice(('tril', 'triu'))}({random.randint(-3, 3)})"
    if kind == 28:
        return f"{name}.movedim({dim}, {other}).contiguous()"
    return f"{name}.flatten({min(other, dims - 1)})"


def numbered(d: Drawer) -> str | None:
    """By a number that a program is given."""
    name = d.pick(lambda t: t.dim() > 0)
    if name is None:
        return None
    t, random = d.values[name], d.random
    dim = random.randrange(t.dim())
    colons = ":, " * dim
    texts = [
        f"{name}[{colons}k:]", f"{name}[{colons}:k]", f"{name}[{colons}-k:]", f"{name}[{colons}k::2]", f"{name}.roll(k, {dim})", f"{name}.roll(k)", f"{name}.select({dim}, k)",
        f"{name}[{colons}k : k + 3]", f"F.pad({name}, (k, 2))", f"F.pad({name}, (1, k), value=2)", f"{name}.tril(k)", f"{name}.triu(k - 1)", f"{name}.diagonal(k, {dim}, -1)", f"{name}.narrow({dim}, k, 1)",
        f"{name}.expand(k, {', '.join(['-1'] * t.dim())})", f"{name}.unfold({dim}, k, 1)", f"{name}.split(k, {dim})[-1]", f"{name} + k", f"{name} * k", f"{name}.clamp(min=k)", f"{name} > k", f"{name}.repeat_interleave(k, {dim})",
        f"{name}.rot90(k)", f"torch.arange(k, k + {t.size(-1)}, device={name}.device) * 1", f"{name}[{colons}(arange({t.size(dim)}) + k) % {t.size(dim)}]", f"{name}[{colons}arange({t.size(dim)}) % {t.size(dim)} - k.__abs__() % {max(t.size(dim), 1)}]",
        f"{name}.tensor_split((k, k + 2), {dim})[1]", f"{name}.chunk(k, {dim})[0]", f"F.pad({name}, (0, -k))", f"{name}.movedim({dim}, -1)[..., k // 2 :]", f"{name}[{colons}max(k, 0) :].flip({dim})",
    ]  # fmt: skip
    if ints(t):
        texts += [
            f"{name} // k",
            f"{name} % k",
            f"({name} + k) // 3",
            f"({name} * k) % 7",
            f"{name} // 2 % k",
            f"torch.div({name}, k, rounding_mode='trunc')",
            f"torch.fmod({name}, k)",
            f"{name} - k",
            f"{name} ^ k",
            f"{name} << abs(k)",
        ]
        texts += [
            f"arange({d.size(t.size(dim))}) // k",
            f"(arange({d.size(t.size(dim))}) - k) // 3",
            f"(arange({d.size(t.size(dim))}) * k + 1) % 5",
            f"(k - arange({d.size(t.size(dim))})) % 4",
            f"arange({d.size(t.size(dim))}) % k",
        ]
    return random.choice(texts)


def _strided(d: Drawer, name: str, t: Tensor) -> str | None:
    """Any strides from its first element to its last."""
    random = d.random
    # A program's own memory alone: of copies, eager's has another size where a compiler lays them out in other ways.
    if not name.startswith("x") and not t.is_contiguous():
        return f"{name}.contiguous()"
    if not t.numel() or (t._base is not None and not name.startswith("x")):
        return None
    room = sum((n - 1) * step for n, step in zip(t.shape, t.stride(), strict=True))
    sizes, strides = [], []
    for _ in range(random.randint(1, 3)):
        n = random.choice((1, 2, 3, 4, 5, 7, 8, 16, 17))
        step = random.choice((0, 1, 1, 2, 3, 5, 7))
        if (n - 1) * step <= room:
            room -= (n - 1) * step
            sizes.append(n)
            strides.append(step)
    offset = random.randint(0, room) if random.random() < 0.5 else 0
    return f"{name}.as_strided({sizes}, {strides}, {name}.storage_offset() + {offset})" if sizes else None


def join(d: Drawer) -> str | None:
    name = d.pick(lambda t: t.dim() > 0)
    if name is None:
        return None
    t, random = d.values[name], d.random
    dim = random.randrange(-t.dim(), t.dim())
    same = [n for n, v in d.values.items() if v.shape == t.shape]
    other = random.choice(same)
    kind = random.randrange(5)
    if kind == 0:
        return f"torch.stack([{name}, {other}], {dim})"
    if kind == 1:
        return f"torch.cat([{name}, {other}[{d.slices((t.size(0),))}]], 0)"
    if kind == 2:
        return f"torch.cat([{name}, {other}, {name}.flip(0)], {dim})"
    if kind == 3:
        n = t.size(dim)
        at = random.randint(0, n)
        return f"torch.cat([{name}.narrow({dim}, {at}, {n - at}), {other}.narrow({dim}, 0, {at})], {dim})"
    fits = [n for n, v in d.values.items() if v.dim() == t.dim() and v.shape[1:] == t.shape[1:]]
    return f"torch.cat([{name}, {random.choice(fits)}])"


def pad(d: Drawer) -> str | None:
    mode = d.random.choice(("constant", "constant", "reflect", "replicate", "circular"))
    name = d.pick(lambda t: t.dim() > 0) if mode == "constant" else d.pick(lambda t: 2 <= t.dim() <= 5)
    if name is None:
        return None
    t = d.values[name]
    count = d.random.randint(1, t.dim()) if mode == "constant" else max(t.dim() - 2, 1)
    # A circle that is cut on one side is read, in eager, before it was written.
    low = -2 if d.random.random() < 0.3 and mode != "circular" else 0
    pads = [d.random.randint(low, 3) for _ in range(2 * count)]
    if mode == "constant":
        value = d.random.choice(("", ", value=1", ", value=-3"))
        return f"F.pad({name}, {pads}{value})"
    return f"F.pad({name}, {pads}, mode='{mode}')"


def image(d: Drawer) -> str | None:
    # Of none eager's `pixel_unshuffle` gives back what it was given, in its sizes.
    name = d.pick(lambda t: 3 <= t.dim() <= 4 and t.numel() > 0)
    if name is None:
        return None
    return d.random.choice(
        (
            f"F.pixel_shuffle({name}, 2)", f"F.pixel_unshuffle({name}, 2)", f"F.pixel_shuffle({name}, 3)", f"F.channel_shuffle({name}, 2)",
            f"F.unfold({name}, 2, dilation={d.number(1, 2)}, padding={d.number(0, 1)}, stride={d.number(1, 2)})", f"F.max_pool2d({name}, 2, {d.number(1, 3)}, {d.number(0, 1)})",
            f"F.avg_pool2d({name}, 2, {d.number(1, 3)}, {d.number(0, 1)})", f"F.interpolate({name}, scale_factor=2, mode='nearest')", f"F.adaptive_avg_pool2d({name}, {d.number(1, 4)})",
            f"F.interpolate({name}, size={(d.number(1, 9), d.number(1, 9))}, mode='nearest')", f"F.max_pool2d({name}, 3, 2, 1, ceil_mode=True)",
        )
    )  # fmt: skip


def indexed(d: Drawer) -> str | None:
    """Reads at positions."""
    name = d.pick(lambda t: t.dim() > 0)
    if name is None:
        return None
    t, random = d.values[name], d.random
    size = tuple(t.shape)
    dim = random.randrange(t.dim())
    kind = random.randrange(9)
    length = random.choice(SIZES)
    if kind == 0:
        index = d.positions((length,), size[dim], negative=False)
        return index and f"{name}.index_select({dim}, {index})"
    if kind == 1:
        shape = tuple(
            random.choice((n, max(n - 1, 0), n)) if at != dim else random.choice((n, length))
            for at, n in enumerate(size)
        )
        index = d.positions(shape, size[dim], negative=False)
        return index and f"{name}.gather({dim}, ({index}).to(torch.int64))"
    if kind == 2:
        index = d.positions(size, size[dim], negative=False)
        return index and f"torch.take_along_dim({name}, ({index}).to(torch.int64), {dim})"
    if kind == 3:
        if t.dim() != 2 or not t.is_floating_point():
            return None
        index = d.positions(random.choice(((length,), (3, 5), (length, 2))), size[0], negative=False)
        return index and f"F.embedding({index}, {name})"
    if kind == 4:
        index = d.positions(random.choice(((length,), (3, 5))), t.numel())
        return index and f"{name}.reshape(-1)[{index}]"
    if kind == 5:
        index = d.positions(random.choice(((length,), (3, 5))), t.numel())
        return index and f"{name}.take(({index}).to(torch.int64))"
    shape = random.choice(((length,), (3, 5), (length, 1)))
    parts: list[str] = []
    for n in size[: random.randint(1, t.dim())]:
        if random.random() < 0.6:
            index = d.positions(random.choice((shape, shape, shape[-1:])), n)
            if index is None:
                return None
            parts.append(index)
        else:
            parts.append(d.slices((n,)).replace("..., ", "").replace("None, ", "").replace(", None", ""))
    return f"{name}[{', '.join(parts)}]"


def scattered(d: Drawer) -> str | None:
    """Writes at positions: to any of which one alone is written, or which are summed."""
    name = d.pick(lambda t: t.dim() > 0 and t.dtype != torch.bool)
    if name is None:
        return None
    t, random = d.values[name], d.random
    size = tuple(t.shape)
    dim = random.randrange(t.dim())
    n = size[dim]
    kind = random.randrange(8)
    if kind == 0:
        index = d.positions(size, n, negative=False)
        return index and f"{name}.scatter_add({dim}, ({index}).to(torch.int64), {name}.flip({dim}))"
    length = random.randint(1, max(n, 1))
    more = d.positions((length,), n, negative=False)
    if kind == 1:
        return more and f"{name}.index_add({dim}, ({more}), {name}.narrow({dim}, 0, {length}))"
    # Of a number of rows, in another order each: positions that differ.
    factor = next((c for c in (random.randint(2, 9), 7, 5, 3, 1) if math.gcd(c, n) == 1), 1)
    one_each = f"((arange({d.size(n)}) * {factor} + {random.randint(0, 9)}) % {d.size(max(n, 1))})"
    shape = [1] * t.dim()
    shape[dim] = n
    if kind == 2:
        return f"{name}.index_copy({dim}, {one_each}, {name}.flip({dim}))"
    if kind == 3:
        return f"{name}.scatter({dim}, {one_each}.view({shape}).expand({list(size)}), {name}.flip({dim}))"
    if kind == 4:
        return f"{name}.index_fill({dim}, ({more}).to(torch.int64), {random.randint(0, 5)})" if more else None
    if kind == 5:
        index = d.positions((length,), size[0])
        return index and f"{name}.index_put(({index},), {name}[:1] * 0 + 1, accumulate=True)"
    if kind == 6:
        index = d.positions((length,), size[0])
        return index and f"{name}.index_put(({index},), {name}.new_tensor({random.randint(0, 9)}))"
    return f"torch.{random.choice(('select_scatter', 'slice_scatter'))}({name}, {name}.select({dim}, 0) if {kind % 2} else {name}, {dim}, 0)"
