"""`drawn`: a random program of views and arithmetic with positions, as text. Eager runs it while it is drawn, and refuses what is unsound.

Out: a `Program`. Floats are small multiples of a power of two as long as anything is decided by them, so that sums in another order decide alike.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 17, 31)
WHOLE = ("torch.int8", "torch.int16", "torch.int32", "torch.int64", "torch.uint8")
MOST = 5000
"""Elements of a tensor."""
LARGEST = 1 << 12
STEP = 1 / 64


@dataclass(frozen=True)
class Input:
    """A tensor that a program is given: sizes, dtype, and the order of its dimensions in memory, with a margin around them."""

    size: tuple[int, ...]
    dtype: str
    order: tuple[int, ...]
    margin: int
    seed: int

    def make(self, device: str) -> Tensor:
        dtype = eval(self.dtype)
        whole = [self.size[dim] + self.margin for dim in self.order]
        generator = torch.Generator().manual_seed(self.seed)
        if dtype is torch.bool:
            made = torch.randint(0, 2, whole, generator=generator) > 0
        elif dtype.is_floating_point:
            made = torch.randint(-40, 41, whole, generator=generator).to(dtype) / 8
        else:
            low = 0 if dtype is torch.uint8 else -100
            made = torch.randint(low, 101, whole, generator=generator).to(dtype)
        back = [self.order.index(dim) for dim in range(len(self.size))]
        made = made.to(device).permute(back)
        return made[tuple(slice(0, n) for n in self.size)] if self.margin else made


@dataclass(frozen=True)
class Program:
    """Its lines give values to `v0`, `v1`..., of `x0`, `x1`...; `returns` are those that it gives back."""

    inputs: tuple[Input, ...]
    lines: tuple[str, ...]
    returns: tuple[str, ...]
    backward: bool
    others: tuple[Input, ...] = ()
    """Of other sizes, which eager runs the program with as well."""
    numbers: tuple[int, int] = (1, 1)
    """What `k` is, with these inputs and with the other ones."""

    def text(self, name: str = "program") -> str:
        head = f"def {name}({', '.join(f'x{at}' for at in range(len(self.inputs)))}, k):\n"
        return head + "".join(f"    {line}\n" for line in self.lines) + f"    return [{', '.join(self.returns)}]\n"

    def __str__(self) -> str:
        return f"{self.text()}# {self.inputs}\n# then {self.others}\n# k: {self.numbers}\n# backward: {self.backward}"


def names(device: str) -> dict[str, Any]:
    """What the text of a program refers to."""

    def arange(n: int, *dtype: torch.dtype) -> Tensor:
        return torch.arange(n, device=device, dtype=dtype[0] if dtype else torch.int64)

    return {"torch": torch, "F": F, "arange": arange}


def drawn(random: Random) -> Program:
    """A program that eager runs."""
    while True:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            drawer = _Drawer(random)
            try:
                for _ in range(random.randint(2, 14)):
                    drawer.statement()
            except _Unsound:
                continue
            made = drawer.finished()
        if made is not None:
            return _with_others(random, made)


def _with_others(random: Random, program: Program) -> Program:
    """The program with inputs of other sizes, where eager takes some, and another number."""
    space = names("cpu")
    exec(program.text(), space)
    sizes = {n for given in program.inputs for n in given.size}
    for _ in range(6):
        # Sizes that are equal stay so: most programs need it.
        others = {n: random.choice(SIZES) if random.random() < 0.5 else n for n in sizes}
        made = tuple(replace(each, size=tuple(others[n] for n in each.size)) for each in program.inputs)
        k = random.randint(-3, 6)
        if (made, k) == (program.inputs, program.numbers[0]) or any(_product(each.size) > MOST for each in made):
            continue
        args = [each.make("cpu") for each in made]
        for arg in args:
            arg.requires_grad_(program.backward and arg.is_floating_point())
        with contextlib.suppress(RuntimeError, IndexError, ValueError, TypeError, NotImplementedError):
            found = space["program"](*args, k)
            sums = [value.sum().to(torch.float64) for value in found if value.requires_grad]
            if sums:
                torch.stack(sums).sum().backward()
            if all(_is_small(value) for value in found):
                return replace(program, others=made, numbers=(program.numbers[0], k))
    return program


class _Drawer:
    """Draws lines one by one, and what they compute."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.backward = random.random() < 0.3
        self.inputs = tuple(self._input() for _ in range(random.randint(1, 3)))
        self.values: dict[str, Tensor] = {}
        self.k = random.randint(-3, 6)
        self.space = {**names("cpu"), "k": self.k}
        self.lines: list[str] = []
        self.inexact: set[str] = set()
        self.overlapping: set[str] = set()
        for at, given in enumerate(self.inputs):
            self.values[f"x{at}"] = given.make("cpu")
        if self.backward:
            for value in self.values.values():
                if value.is_floating_point():
                    value.requires_grad_()

    def _input(self) -> Input:
        random = self.random
        dims = random.choice((1, 2, 2, 3, 3, 4))
        while True:
            size = tuple(0 if random.random() < 0.01 else random.choice(SIZES) for _ in range(dims))
            if _product(size) <= MOST // 2:
                break
        order = list(range(dims))
        if random.random() < 0.4:
            random.shuffle(order)
        dtype = random.choice(("torch.float32", "torch.float32", "torch.float64", "torch.bool", *WHOLE, "torch.int64"))
        if self.backward and random.random() < 0.7:
            dtype = "torch.float32"
        return Input(size, dtype, tuple(order), int(random.random() < 0.2), random.randrange(1000))

    # ---- statements ----

    def statement(self) -> None:
        """One that is sound."""
        for _ in range(40):
            draw = self.random.choices(_FAMILIES, _WEIGHTS)[0]
            text = draw(self)
            if text is not None and (self._written(text) if text.startswith("!") else self._computed(text)):
                return

    def _computed(self, text: str) -> bool:
        try:
            made = eval(text, {**self.space, **self.values})
        except (RuntimeError, IndexError, ValueError, TypeError, NotImplementedError):
            return False
        if not isinstance(made, Tensor) or made.numel() > MOST or made.dim() > 5 or made.is_complex():
            return False
        if not _is_small(made):
            return False
        if made.numel() == 0 and self.random.random() < 0.8:
            return False
        name = f"v{len(self.lines)}"
        read = {each for each in self.values if _reads(text, each)}
        if (
            read & self.inexact
            or (made.is_floating_point() and any(word in text for word in _ROUNDING))
            or not _is_exact(made)
        ):
            self.inexact.add(name)
        if (
            read & self.overlapping
            or "as_strided" in text
            or "unfold" in text
            or "expand" in text
            or "broadcast" in text
        ):
            self.overlapping.add(name)
        self.lines.append(f"{name} = {text}")
        self.values[name] = made
        return True

    def _written(self, text: str) -> bool:
        """A statement that writes in place."""
        before = {name: value.detach().clone() for name, value in self.values.items()}
        try:
            exec(text[1:], {**self.space, **self.values})
        except (RuntimeError, IndexError, ValueError, TypeError, NotImplementedError):
            assert all(torch.equal(value, self.values[name].detach()) for name, value in before.items()), text
            return False
        self.lines.append(text[1:])
        sound = True
        for name, value in self.values.items():
            sound = sound and _is_small(value)
            if value.is_floating_point() and not _is_exact(value):
                self.inexact.add(name)
        if not sound:
            raise _Unsound
        return True

    def finished(self) -> Program | None:
        """The program, with what it gives back."""
        made = [name for name in self.values if name.startswith("v")]
        if not made:
            return None
        # What nobody reads, most of it, and some of what is read.
        ends = [name for name in made if not any(_reads(line.partition(" = ")[2], name) for line in self.lines)]
        ends += self.random.sample(made, min(len(made), self.random.choice((0, 0, 1, 2))))
        returns = tuple(
            dict.fromkeys(name for name in (*ends, made[-1]) if self.random.random() < 0.7 or name == made[-1])
        )
        try:
            sums = [
                value.sum().to(torch.float64) for value in map(self.values.__getitem__, returns) if value.requires_grad
            ]
            if sums:
                torch.stack(sums).sum().backward()
        except RuntimeError:  # what is needed was written to
            return None
        return Program(self.inputs, tuple(self.lines), returns, self.backward, numbers=(self.k, self.k))

    # ---- parts of expressions ----

    def pick(self, wanted: Callable[[Tensor], bool] = lambda t: True, *, exact: bool = False) -> str | None:
        """A value, of the last ones mostly."""
        found = [name for name, value in self.values.items() if wanted(value) and not (exact and name in self.inexact)]
        if not found:
            return None
        return found[-1] if self.random.random() < 0.6 else self.random.choice(found)

    def number(self, low: int, high: int) -> int:
        return self.random.randint(low, high)

    def slices(self, size: tuple[int, ...]) -> str:
        """What stands between brackets, of these sizes."""
        random, parts = self.random, []
        for n in size[: random.randint(1, len(size))] if size else ():
            kind = random.randrange(8)
            if kind <= 1:
                parts.append(":")
            elif kind == 2 and n:
                parts.append(str(random.randrange(-n, n)))
            elif kind == 3:
                parts.append(f"::{random.randint(1, 4)}")
            elif kind == 4:
                parts.append(f"-{random.randint(1, n + 1)}:")
            elif kind == 5:
                parts.append(f":-{random.randint(1, max(n - 1, 1))}")
            else:
                start = random.randint(0, n)
                parts.append(f"{start}:{random.randint(start, n + 2)}:{random.randint(1, 3)}")
        if random.random() < 0.15:
            parts.insert(random.randint(0, len(parts)), "None")
        if random.random() < 0.2:
            parts.insert(0, "...")
        return ", ".join(parts) or ":"

    def size(self, n: int) -> str:
        """A number, maybe as the size that it is."""
        found = [
            f"x{at}.size({dim})"
            for at, given in enumerate(self.inputs)
            for dim, size in enumerate(given.size)
            if size == n
        ]
        return self.random.choice(found) if found and self.random.random() < 0.5 else str(n)

    def shaped(self, sizes: tuple[int, ...], *, rest: bool = False) -> str:
        """Sizes as text; with `rest` one of them may be what is left."""
        texts = [self.size(n) for n in sizes]
        if rest and texts and self.random.random() < 0.4:
            texts[self.random.randrange(len(texts))] = "-1"
        return f"({', '.join(texts)},)"

    def shape(self, count: int) -> tuple[int, ...]:
        """Sizes with as many elements."""
        if count <= 1:
            return (count,)
        sizes = [count]
        for _ in range(self.number(0, 3)):
            at = self.random.randrange(len(sizes))
            divisors = [d for d in range(1, sizes[at] + 1) if sizes[at] % d == 0]
            d = self.random.choice(divisors)
            sizes[at : at + 1] = [d, sizes[at] // d]
        return tuple(sizes)

    def dtype(self) -> str:
        return self.random.choice(WHOLE)

    def positions(self, size: tuple[int, ...], bound: int, *, negative: bool = True) -> str | None:
        """Text of whole numbers of these sizes, each a position among `bound`."""
        if bound == 0:
            return None
        text = self.arithmetic(size)
        random = self.random
        for _ in range(random.randint(0, 2)):
            c = random.randint(2, 9)
            text = f"({text})"
            text = random.choice(
                (
                    f"{text} // {c}", f"{text} // -{c}", f"{text} % {c}", f"{text} * {c}", f"{text} - {c}", f"({text} + {c}) // {c}",
                    f"{text}.clamp(-{c}, {c})", f"{text}.abs()", f"-{text}", f"torch.div({text}, {c}, rounding_mode='trunc')",
                    f"{text}.to({self.dtype()})", f"torch.fmod({text}, {c})", f"{text} ^ {c}", f"{text} >> 1", f"{text} & {c}",
                    f"torch.where({text} < {c}, {text}, {text} - {c})", f"{text}.flip(0)", f"torch.minimum({text}, {text}.new_tensor({c}))",
                )
            )  # fmt: skip
        kind = random.randrange(5)
        text = f"({text}).to(torch.{random.choice(('int64', 'int64', 'int64', 'int32'))})"
        told = self.size(bound)
        if kind == 0:
            return f"{text}.clamp(0, {told} - 1)"
        if kind == 1 and negative:
            return f"({text} % {told} - {random.choice((told, str(random.randint(0, bound))))})"
        if kind == 2 and negative:
            return f"{text}.clamp(-{told}, {told} - 1)"
        if kind == 3 and negative:
            return f"torch.fmod({text}, {told})"
        return f"({text} % {told})"

    def arithmetic(self, size: tuple[int, ...]) -> str:
        """Text of whole numbers of these sizes."""
        random = self.random
        found = [
            n
            for n, v in self.values.items()
            if tuple(v.shape) == size and not v.is_floating_point() and v.dtype != torch.bool
        ]
        if found and random.random() < 0.4:
            return random.choice(found)
        dtype = f", {self.dtype()}" if random.random() < 0.4 else ""
        if len(size) == 0:
            return f"torch.tensor({random.randint(-9, 9)})"
        if random.random() < 0.4 or len(size) == 1:
            if len(size) == 1:
                return f"arange({self.size(size[0])}{dtype})"
            return f"arange({' * '.join(map(self.size, size))}{dtype}).view{self.shaped(size, rest=True)}"
        # relative to each other, as positions are that bias attention
        parts = []
        for dim, n in enumerate(size):
            index = ["None"] * len(size)
            index[dim] = ":"
            parts.append(f"arange({self.size(n)}{dtype})[{', '.join(index)}]")
        text = parts[0]
        for part in parts[1:]:
            text = f"({text} {random.choice('+--*')} {part})"
        return text


class _Unsound(Exception):
    """What was drawn is of no use."""


def _reads(text: str, name: str) -> bool:
    at = text.find(name)
    while at >= 0:
        end = at + len(name)
        if not text[end : end + 1].isdigit() and not (at and (text[at - 1].isalnum() or text[at - 1] == "_")):
            return True
        at = text.find(name, end)
    return False


def _product(size: tuple[int, ...]) -> int:
    found = 1
    for n in size:
        found *= n
    return found


def _is_small(value: Tensor) -> bool:
    value = value.detach()
    if not value.is_floating_point() or value.numel() == 0:
        return True
    return bool(value.isfinite().all()) and float(value.abs().max()) <= LARGEST


def _is_exact(value: Tensor) -> bool:
    if not value.is_floating_point():
        return True
    scaled = value.detach() / STEP
    return bool((scaled == scaled.round()).all())


_ROUNDING = ("mean", "sin(", "sigmoid", "exp(", "softmax", "tanh", "sqrt", "avg_pool", " / ", "var(")


def _ints(t: Tensor) -> bool:
    return not t.is_floating_point() and t.dtype != torch.bool


def _floats(t: Tensor) -> bool:
    return t.is_floating_point()


# ---- families ----


def _view(d: _Drawer) -> str | None:
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


def _numbered(d: _Drawer) -> str | None:
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
    if _ints(t):
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


def _strided(d: _Drawer, name: str, t: Tensor) -> str | None:
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


def _join(d: _Drawer) -> str | None:
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


def _pad(d: _Drawer) -> str | None:
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


def _image(d: _Drawer) -> str | None:
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


def _indexed(d: _Drawer) -> str | None:
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


def _scattered(d: _Drawer) -> str | None:
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
    factor = next((c for c in (random.randint(2, 9), 7, 5, 3, 1) if _coprime(c, n)), 1)
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


def _coprime(a: int, b: int) -> bool:
    while b:
        a, b = b, a % b
    return a == 1


def _other(d: _Drawer, t: Tensor, name: str, *, exact: bool = False) -> str:
    """What broadcasts with it, of any dtype."""
    random = d.random
    fits = []
    for other, value in d.values.items():
        if exact and other in d.inexact:
            continue
        with contextlib.suppress(RuntimeError):
            if _product(torch.broadcast_shapes(value.shape, t.shape)) <= MOST:
                fits.append(other)
    kind = random.randrange(5)
    if kind == 0 and t.dim():
        n = t.size(-1)
        return f"arange({d.size(n)}, {d.dtype()})"
    if kind == 1 and t.dim():
        return d.arithmetic(tuple(t.shape))
    if kind == 2 and t.dim():
        return f"{name}.flip(0)"
    return random.choice(fits) if fits else name


def _whole(d: _Drawer) -> str | None:
    """Arithmetic of whole numbers."""
    name = d.pick(_ints)
    if name is None:
        return None
    t, random = d.values[name], d.random
    other = _other(d, t, name)
    if _floats(d.values[other]) if other in d.values else False:
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


def _float(d: _Drawer) -> str | None:
    """Arithmetic of floats, without rounding."""
    name = d.pick(_floats)
    if name is None:
        return None
    t, random = d.values[name], d.random
    other = _other(d, t, name)
    c = random.choice((1, 2, 3, 0.5, -1, -2))
    return random.choice(
        (
            f"{name} + {other}", f"{name} - {other}", f"{name} * {c}", f"{name} + {c}", f"-{name}", f"{name}.abs()", f"{name}.clamp(-2, 3)", f"torch.maximum({name}, {name} * {c})",
            f"torch.where({name}.detach() * 0 == 0, {name}, {c})", f"{name}.relu()", f"{name} * {other}", f"{name}.to(torch.float64)", f"{name} * ({other} != 0)",
        )
    )  # fmt: skip


def _decided(d: _Drawer) -> str | None:
    """By floats, which are exact."""
    name = d.pick(_floats, exact=True)
    if name is None:
        return None
    t = d.values[name]
    other = _other(d, t, name, exact=True)
    return d.random.choice(
        (
            f"{name} > 0", f"{name} >= {other}", f"{name}.floor()", f"{name}.trunc().clamp(0, 99).to({d.dtype()})",
            f"torch.where({name} > 0, {name}, {other})", f"{name}.masked_fill({name} < 0, 0)", f"{name}.round()", f"{name}.sign()", f"{name}.ceil()",
            f"{name}.argmax({d.number(-1, 1)})", f"torch.remainder({name}, 3)", f"torch.fmod({name}, 3)", f"{name}.floor() // 2",
        )
    )  # fmt: skip


def _logical(d: _Drawer) -> str | None:
    name = d.pick(lambda t: t.dtype == torch.bool)
    if name is None:
        return None
    t = d.values[name]
    other = _other(d, t, name)
    return d.random.choice(
        (
            f"~{name}", f"{name} & {name}.flip(-1)", f"{name}.to(torch.{d.random.choice(('int8', 'int64', 'float32', 'uint8'))})", f"torch.where({name}, {other}, 1)",
            f"torch.where({name}, {other}, {other}.roll(1))", f"{name}.any(-1)", f"{name}.all(0)", f"{name}.cumsum(-1)", f"{name} + {other}", f"{name}.sum(0)", f"{name} | ({other} != 0)",
        )
    )  # fmt: skip


def _reduced(d: _Drawer) -> str | None:
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
        f"{name}.prod({dim})" if _ints(t) else f"{name}.sum({dim})",
        f"{name}.cummax({dim})[0]",
        f"{name}.sort(dim={dim}, stable=True)[0]",
        f"{name}.max({dim})[0]",
    ]
    if name not in d.inexact:
        texts += [f"{name}.argmax({dim}{keep})", f"{name}.argmin({dim}{keep})", f"{name}.argsort({dim}, stable=True)"]
    if t.is_floating_point():
        texts += [f"{name}.mean({some}{keep})"]
    return random.choice(texts)


def _inexact(d: _Drawer) -> str | None:
    name = d.pick(_floats)
    if name is None:
        return None
    return d.random.choice(
        (f"{name}.sin()", f"{name}.sigmoid()", f"{name}.softmax(-1)", f"{name} / 3", f"{name}.tanh()")
    )


def _in_place(d: _Drawer) -> str | None:
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


_DRAWN: dict[Callable[[_Drawer], str | None], int] = {
    _view: 30, _numbered: 12, _join: 6, _pad: 6, _image: 4, _indexed: 14, _scattered: 7, _whole: 18, _float: 8, _decided: 4, _logical: 4, _reduced: 9, _inexact: 1, _in_place: 7,
}  # fmt: skip
_FAMILIES, _WEIGHTS = tuple(_DRAWN), tuple(_DRAWN.values())


def smaller(program: Program) -> Iterator[Program]:
    """Programs with less in them; some are of no use."""
    if len(program.returns) > 1:
        for at in range(len(program.returns)):
            yield replace(program, returns=program.returns[:at] + program.returns[at + 1 :])
    for at in reversed(range(len(program.lines))):
        yield replace(program, lines=program.lines[:at] + program.lines[at + 1 :])
    for at, line in enumerate(program.lines):
        name = line.partition(" = ")[0]
        if name not in program.returns and name.startswith("v") and at < len(program.lines) - 1 and " " not in name:
            yield replace(program, lines=program.lines[: at + 1], returns=(name,))
    # A line that hands on what it was given.
    for at, line in enumerate(program.lines):
        name, _, text = line.partition(" = ")
        for other in {f"x{n}" for n in range(len(program.inputs))} | {f"v{n}" for n in range(at)}:
            if name.startswith("v") and " " not in name and text != other and _reads(text, other):
                yield replace(program, lines=(*program.lines[:at], f"{name} = {other}", *program.lines[at + 1 :]))
    if program.others:
        yield replace(program, others=())
        yield replace(program, inputs=program.others, others=(), numbers=(program.numbers[1], 1))
        yield replace(program, others=program.inputs)
    if program.backward:
        yield replace(program, backward=False)
