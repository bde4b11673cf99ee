"""Draws programs over tensors, ints and floats as text, with the calls of one.

Out: an `Example`. Every statement is sound for whatever sizes there are, or raises what eager raises.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import torch
import torch.nn.functional as F

TENSORS = (
    "T.reshape(-1)", "T.unsqueeze(0)", "T.unsqueeze(-1)", "T.transpose(0, -1)", "T.contiguous()", "T.flatten()", "T.squeeze()",
    "T.permute(*range(T.dim() - 1, -1, -1))", "torch.cat([T.reshape(-1), T.reshape(-1)])", "torch.cat([T, T])", "torch.stack([T, T * 2])",
    "torch.stack([T, -T], -1)", "T.reshape(-1)[I:]", "T.reshape(-1)[:I]", "T.reshape(-1)[I:I]", "T[::2]", "T[1::2]", "T[..., 1::2]",
    "T[..., ::3]", "T.reshape(-1)[I % 5 :: 2]", "T[1:]", "T[:-1]", "T[-2:]", "T[..., :-1]", "T[:, 1:]", "T[None, ..., None]", "T[I % max(len(T), 1)]",
    "T[len(T) // 2]", "T[-1]", "T.narrow(0, 0, len(T) // 2)", "T.narrow(-1, T.size(-1) // 2, T.size(-1) - T.size(-1) // 2)",
    "T.split(max(I, 1))[0]", "T.split(max(I, 1))[-1]", "T.chunk(2)[-1]", "T.chunk(3, -1)[0]", "torch.cat(T.chunk(2)[::-1])",
    "torch.cat([p * 2 for p in T.split(2)])", "torch.tensor_split(T, 3)[1]", "T.split([len(T) - len(T) // 2, len(T) // 2])[1]",
    "F.pad(T, (I % 3, 1))", "F.pad(T, (0, -T.size(-1) % 4))", "T.expand(2, *T.shape)", "T.expand(I % 4, *T.shape)", "T.repeat(2, *[1] * T.dim())",
    "T.repeat_interleave(2, 0)", "T.repeat(I % 3, *[1] * T.dim())", "T.sum(0)", "T.sum()", "T.mean(-1, keepdim=True)", "T.amax(-1)", "T.cumsum(0)",
    "T.softmax(-1)", "T.std(0)", "T.prod(-1)", "T.argmax(-1) * 1.0", "T.sort(-1).values", "T.norm()", "T - T.mean()", "T * D", "T + I", "T + D",
    "T / max(I, 1)", "T * (I / 3)", "torch.zeros(I % 7, 3) + D", "torch.arange(I % 11) * 1.0", "torch.full((I % 5,), D)", "torch.ones(T.shape)",
    "torch.full_like(T, I)", "torch.arange(len(T), dtype=torch.float32)", "T.new_zeros(len(T), I % 3)", "torch.eye(I % 5)", "torch.linspace(0, 1, I % 6)",
    "torch.tensor(I) * 1.0", "torch.tensor([I, I]) * 0.5", "T.reshape(-1, 2) if T.numel() % 2 == 0 else T", "T.view(T.shape)", "T.reshape(T.shape[::-1])",
    "T.reshape(len(T), -1)", "T.flatten(0, -1).view(-1, 1)", "T.reshape(-1) @ T.reshape(-1)", "T.reshape(len(T), -1) @ T.reshape(len(T), -1).T",
    "T.reshape(-1)[: min(T.numel(), 4)]", "paired(T, T)", "paired(T, T)", "T.roll(I, 0)", "T.flip(0)", "T.reshape(len(T), -1).tril()", "T.tile(2)",
    "picked(T, I)", "picked(T, 2)", "T.reshape(-1).unfold(0, 2, 1)", "T.relu()", "T.clamp(-1, D)",
    "torch.where(T > D, T, -T)", "T.clone().add_(I)", "written(T, I)", "filled(T)", "T.masked_fill(T > D, 0.5)", "T.diagonal(0, 0, -1)", "T.unflatten(0, (-1, 1))",
    "strided(T)", "T.t() if T.dim() == 2 else T", "T.mT if T.dim() > 1 else T", "T.swapaxes(0, -1).reshape(-1)",
    "T.max(0).values", "T.var(-1, unbiased=False)", "T.movedim(0, -1).contiguous()", "torch.atleast_2d(T)", "T.view(-1) if T.is_contiguous() else T + 1",
    "image(T)", "last(T)", "last(T)", "last(T).contiguous()", "image(T).permute(0, 2, 3, 1)", "image(T).contiguous(memory_format=torch.channels_last)", "pooled(T)",
    "pooled(last(T))", "grown(T)", "grown(last(T))", "convolved(T)", "convolved(last(T))", "grown(pooled(last(T)))", "last(T) + image(T)", "last(T) * 2",
    "F.adaptive_avg_pool2d(last(T), 1)", "F.adaptive_avg_pool2d(image(T), (2, 1))", "F.max_pool1d(image(T).flatten(0, 1), 1)", "last(T).flatten(1)",
    "torch.cat([last(T), last(T)], 1)", "last(T).mean((2, 3), keepdim=True)", "F.pixel_unshuffle(F.pad(last(T), (0, T.size(-1) % 2 + 1)), 1)",
    "torch.einsum('i,j->ji', T.reshape(-1), T.reshape(-1)[:2])", "torch.einsum('ij,jk->ki', flat(T), flat(T).t())", "torch.einsum('bij,bjk->bki', box(T), box(T).mT)",
    "torch.bmm(box(T), box(T).mT)", "torch.matmul(box(T), flat(T).t())", "box(T).transpose(0, 1) @ box(T).permute(1, 2, 0)", "F.linear(T, torch.ones(3, T.size(-1)))",
    "torch.baddbmm(torch.ones(1, 1, 1), box(T), box(T).mT)", "T.cumsum(-1)", "T.sort(0, descending=True).values", "T.argsort(-1) * 1.0", "T.topk(min(T.size(-1), 2), -1).values",
    "T.cummax(0).values", "T.logsumexp(-1)", "T.log_softmax(0)", "T.logcumsumexp(-1)", "scattered(T)", "T.all(-1) * 1.0", "T.any(0) * 1.0", "T.amin(0)", "T.aminmax(dim=0).max",
    "torch.logsumexp(T, tuple(range(T.dim())))", "F.layer_norm(T, T.shape[-1:], eps=0.1)", "F.normalize(T, dim=-1)", "F.cosine_similarity(T, T, -1)", "T.cov() if T.dim() == 2 else T",
    "masked(T, D)", "masked(T.reshape(-1), D)", "through(T)", "through(T.t()) if T.dim() == 2 else T", "through(last(T))", "overlapped(T)", "overlapped(T[:1])",
    "torch.broadcast_tensors(T, T[:1])[1]", "torch.broadcast_tensors(T[..., :1], T)[0]", "T[:1].expand_as(T)", "T[:1].expand_as(T).reshape(-1)", "T[:1] + T", "T[:1] * T[..., :1]",
    "T.broadcast_to(2, *T.shape)", "torch.where(T[:1] > 0, T, 0.0)", "torch.addcmul(T, T[:1], T)", "torch.lerp(T, T[:1], 0.5)", "T.reshape(-1)[:1].expand(I % 4)",
    "chosen(T, D)",
    "T.contiguous().view(T.numel(), -1)", "T.mT.contiguous() if T.dim() > 1 else T", "T.t().contiguous().t() if T.dim() == 2 else T", "T.t() * T.t() if T.dim() == 2 else T",
    "T.detach()", "T.view(torch.int32) * 1.0 if T.dtype == torch.float32 else T", "T.to(torch.float64)", "T.squeeze(0)", "T.squeeze(-1)", "T.squeeze((0, -1)) if T.dim() > 1 else T",
    "T.flatten(0, 1) if T.dim() > 1 else T", "T.reshape(1, -1)", "T.reshape(-1, 1)", "T.transpose(0, -1).reshape(T.shape)", "T.transpose(0, -1).flatten()", "T.fliplr() if T.dim() > 1 else T",
    "torch.triu(flat(T), I % 3)", "torch.block_diag(flat(T), flat(T))", "torch.vstack([flat(T), flat(T)[:1]])", "torch.hstack([T, T])", "torch.dstack([T, T])", "torch.cartesian_prod(T.reshape(-1)[:2], T.reshape(-1)[:3])",
    "torch.cdist(flat(T), flat(T)[:2])", "torch.diff(T)", "torch.trapezoid(T)", "T.nan_to_num()", "T.std_mean(-1)[1]", "F.avg_pool1d(flat(T), 1)", "F.unfold(last(T), 1)", "F.glu(torch.cat([T, T], -1))",
    "torch.diag_embed(T)", "F.group_norm(image(T).repeat(1, 2, 1, 1), 2, eps=0.1)", "F.instance_norm(image(T), eps=0.1)",
    "torch.outer(T.reshape(-1), T.reshape(-1)[:3])", "torch.einsum('i,j->ij', T.reshape(-1), T.reshape(-1)[:2])", "T.reshape(-1).topk(min(T.numel(), 2)).values",
)  # fmt: skip
INTS = (
    "T.size(0)", "T.size(-1)", "T.numel()", "T.dim()", "len(T)", "T.shape[-1]", "T.stride(0)", "I + I", "I - I", "I * I", "I // 3", "I // max(I, 1)", "I % 4",
    "I % max(I, 1)", "-I", "abs(I - I)", "max(I, I)", "min(I, 6)", "I ** 2", "divmod(I, 3)[1]", "divmod(I, 2)[0]", "int(I / 2)", "round(I * 0.3)",
    "math.ceil(I / 2)", "math.floor(I / 4)", "sum(T.shape)", "math.prod(T.shape)", "int(D * 3)", "I & 3", "I << 1", "I >> 1", "k", "k", "more[0]", "more[1]",
    "options['width']", "int(I > 2)", "I if I > I else 2", "(I + 7) // 8 * 8", "sorted((I, I))[0]", "len(T.shape)", "sum((I, I, 1))", "I * 2 - 1", "I | 1",
    "int(I == I)", "min(T.shape)", "max(T.shape[-1], I)", "1 + (I > 3)", "math.trunc(I / 3)", "I ^ 1", "math.isqrt(abs(I))", "round(I / 2)", "math.gcd(I, 6)",
)  # fmt: skip
FLOATS = (
    "s", "s", "options['rate']", "D * 2", "D + I", "I / 3", "math.sqrt(abs(I) + 1)", "float(I)", "D ** 2", "min(D, 1.0)", "-D", "D - 0.5", "D * D", "abs(D)",
    "1 / (abs(D) + 1)", "I * 0.1", "math.exp(-abs(D))", "math.log(abs(I) + 2)", "max(D, I)", "sum((D, I))", "I / max(I, 1)", "D // 1", "D % 0.7", "round(D, 1)",
    "I ** -0.5 if I > 0 else D", "D if D > 0.5 else 0.5", "float(T.size(0)) * D", "math.sin(D)", "math.tanh(D)", "2.0 ** -abs(D)",
)  # fmt: skip
CONDITIONS = (
    "I > I", "I == I", "I % 2 == 0", "I > 3", "I", "D > 0.5", "D > I", "T.shape == T.shape", "T.size(0) != T.size(-1)", "T.numel()", "2 < I < 9", "not I",
    "I > 2 and D < 1", "I in (2, 5, 8)", "len(T) >= 2", "T.shape[0] * 2 > I", "T.dim() > 1", "I != 1", "T.is_contiguous()", "D == D", "bool(I)", "T.t().is_contiguous() if T.dim() == 2 else T.is_contiguous()",
    "image(T).is_contiguous(memory_format=torch.channels_last)", "last(T).is_contiguous()", "(T * 2).stride() == T.stride()", "T.stride(-1) == 1",
)  # fmt: skip
STATEMENTS: tuple[str, ...] = (
    "a = TENSOR", *["a = TENSOR", "b = TENSOR"] * 8, *["c = TENSOR", "i = INT", "d = FLOAT"] * 3, *["j = INT"] * 2,
    "if CONDITION:\n    a = TENSOR\nelse:\n    a = TENSOR", "if CONDITION:\n    i = INT", "if CONDITION:\n    d = FLOAT",
    "for step in range(I % 4):\n    a = a + step * D", "for step in range(3):\n    i = INT", "for part in T.split(max(len(T) // 2, 1)):\n    c = paired(c, part)",
    "for size in T.shape:\n    j = j + size", "kept.append(INT)", "kept.append(FLOAT)", "kept.append(T.shape)", "kept.append(CONDITION)", "i += 1", "j *= 2",
    "i, j = j, i", "a, b = b, a", "state['steps'] += 1", "state['scale'] *= 0.9", "a = a * state['scale']", "a = a + state['steps']", "pair = (INT, FLOAT)\nkept.append(pair)",
    "T.add_(1)", "a.mul_(D)", "T[:1].add_(2)", "T.reshape(-1)[:I].mul_(2)", "T.t().contiguous().add_(1) if T.dim() == 2 else T", "T[T > D] = D", "T[..., 0] = I", "T.clamp_(-1, D)", "T.transpose(0, -1).contiguous().mul_(2)",
    "a = T.contiguous()\na.add_(1)", "b = last(T)\nb.mul_(2)", "b = T.reshape(-1)\nb.add_(1)", "T.relu_()", "T.zero_()", "T.copy_(T[:1])", "kept.append(T.is_contiguous())", "kept.append(steps(T))", "kept.append(steps(last(T)))",
    "assert I == I or True", "b = (lambda v, w=INT: v[:w])(b)", "more[0] += 1", "options['rate'] = FLOAT",
)  # fmt: skip
#: What makes a break or a size that depends on data, drawn less often.
RARE = (
    "i = int(T.sum().item() + 0.3) % 5", "a = T[T > D]", "a = T.reshape(-1)[T.reshape(-1) > 0]", "b = T.nonzero() * 1.0", "if T.sum() > 0.3:\n    a = a + 1", "outside()",
    "j = len((T > 0).nonzero())", "a = torch.stack([T[T > 0].sum(), T.sum()])", "a = torch.cat([T[T > D], T.reshape(-1)])", "a = T.nonzero().t().contiguous() * 1.0", "b = T[T > D].sort().values", "b = T[T > D].cumsum(0)",
    "b = T[T > D].reshape(-1, 1).expand(-1, 2)", "b = T[T > D].unsqueeze(0).softmax(-1)", "b = T[T > D][:1]", "a = T.masked_select(T > D).repeat(2)", "b = torch.stack([T[T > D], T[T > D]]).t().contiguous()", "d = T.sum().item()", "a = T.unique()",
)  # fmt: skip
SIZES = (0, 1, 2, 3, 4, 5, 6, 8, 9, 16, 17)
NUMBERS = (0, 1, 2, 3, 4, 5, 7, 8, 12, 16, 33, -1, -3)
RATES = (0.0, 1.0, 0.5, 0.25, 2.5, -0.75, 0.1, 3.0, 1e-3)


@dataclass(frozen=True)
class Call:
    """Sizes of `x` (n, m) and `y` (p); numbers."""

    n: int
    m: int
    p: int
    k: int
    s: float
    more: tuple[int, int]
    rate: float
    width: int


@dataclass(frozen=True)
class Example:
    """The body of `program`, its calls, and how it is compiled."""

    body: str
    calls: tuple[Call, ...]
    dynamic: bool | None
    backend: str
    needs_gradients: bool

    def __str__(self) -> str:
        return (
            f"{self.text()}\n# dynamic={self.dynamic}, backend={self.backend}, gradients: {self.needs_gradients}\n"
            + "\n".join(f"# {call}" for call in self.calls)
        )

    def text(self) -> str:
        head = "def program(x, y, k, s, more, options, state):\n    a, b, c, i, j, d, kept = x, y, x, k, 2, s, []\n"
        body = "".join(f"    {line}\n" for line in self.body.splitlines())
        return head + body + "    return a, b, c, i, j, d, kept\n"


_HOLES = {"TENSOR": TENSORS, "INT": INTS, "FLOAT": FLOATS, "CONDITION": CONDITIONS}
_NAMES = {"T": ("a", "b", "c", "x", "y"), "I": ("i", "j", "k"), "D": ("d", "s")}
_HOLE, _NAME = re.compile(r"\b(TENSOR|INT|FLOAT|CONDITION)\b"), re.compile(r"\b([TID])\b(?!\s*=[^=])")


def drawn(random: Random) -> Example:
    """A program of two to nine statements, and four to six calls of it."""
    body = "\n".join(_statement(random) for _ in range(random.randint(2, 9)))
    backend = random.choice(("eager", "eager", "aot_eager"))
    return Example(body, _calls(random), random.choice((None, True)), backend, random.random() < 0.25)


def _statement(random: Random) -> str:
    """One statement, its holes filled."""
    text = random.choice(RARE if random.random() < 0.04 else STATEMENTS)
    text = _HOLE.sub(lambda match: random.choice(_HOLES[match[1]]), text)
    # `T.T` is the transposed, and no hole.
    text = text.replace(".T", ".\0")
    return _NAME.sub(lambda match: random.choice(_NAMES[match[1]]), text).replace("\0", "T")


def _calls(random: Random) -> tuple[Call, ...]:
    """Some of what is given changes from call to call, the rest stays."""

    def one() -> dict[str, Any]:
        sizes = {name: random.choice(SIZES) for name in ("n", "m", "p", "width")}
        k, *more = (random.choice(NUMBERS) for _ in range(3))
        return {**sizes, "k": k, "more": tuple(more), "s": random.choice(RATES), "rate": random.choice(RATES)}

    fixed = one()
    stays = {name for name in fixed if random.random() < 0.5}
    return tuple(
        Call(**{name: fixed[name] if name in stays else value for name, value in one().items()})
        for _ in range(random.randint(4, 6))
    )


def shrunk(example: Example, fails: Callable[[Example], bool]) -> Example:
    """The example without the statements and calls that it fails without too."""
    smaller: Example | None = example
    while smaller is not None:
        example = smaller
        smaller = next((one for one in _smaller(example) if fails(one)), None)
    return example


def _smaller(example: Example) -> Iterator[Example]:
    statements = re.split(r"\n(?! |else)", example.body)
    for at in range(len(statements)):
        if len(statements) > 1:
            yield replace(example, body="\n".join(statements[:at] + statements[at + 1 :]))
    for at in range(len(example.calls)):
        if len(example.calls) > 1:
            yield replace(example, calls=example.calls[:at] + example.calls[at + 1 :])
    if example.needs_gradients:
        yield replace(example, needs_gradients=False)
    if example.backend != "eager":
        yield replace(example, backend="eager")


def paired(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The sum of as many elements as both have."""
    n = min(a.numel(), b.numel())
    return a.reshape(-1)[:n] + b.reshape(-1)[:n]


def written(a: torch.Tensor, at: int) -> torch.Tensor:
    """A copy whose end is overwritten."""
    made = a.clone()
    made[at % 3 :] = at
    return made


def picked(a: torch.Tensor, every: int) -> torch.Tensor:
    """Rows by their places: what only a kernel refuses may be raised elsewhere, or not at all where nobody uses it."""
    if len(a) < 3:
        return a
    return a[torch.arange(len(a)) % 3].index_select(0, torch.arange(0, len(a), abs(every) % 3 + 1))


def strided(a: torch.Tensor) -> torch.Tensor:
    """The first of each row, by its strides; where there is none, it is the storage's length, of which no shape tells, that
    eager refuses."""
    return a.as_strided((len(a),), (a.stride(0),), a.storage_offset()) if a.numel() else a.flatten()


def image(a: torch.Tensor) -> torch.Tensor:
    """Four dimensions."""
    while a.dim() > 4:
        a = a.flatten(0, 1)
    while a.dim() < 4:
        a = a.unsqueeze(a.dim() % 2 and -1)
    return a


def last(a: torch.Tensor) -> torch.Tensor:
    """An image with its channels innermost."""
    return image(a).contiguous(memory_format=torch.channels_last)


def flat(a: torch.Tensor) -> torch.Tensor:
    """A matrix."""
    return a.reshape(-1, a.size(-1)) if a.size(-1) else a.reshape(-1, 1)


def box(a: torch.Tensor) -> torch.Tensor:
    """Matrices."""
    return image(a).flatten(0, 1)


def pooled(a: torch.Tensor) -> torch.Tensor:
    return F.max_pool2d(image(a), 2, 2, 1)


def grown(a: torch.Tensor) -> torch.Tensor:
    return F.interpolate(image(a), scale_factor=2)


def convolved(a: torch.Tensor) -> torch.Tensor:
    a = image(a)
    return F.conv2d(a, torch.ones(2, a.size(1), 1, 1))


def masked(a: torch.Tensor, at: float) -> torch.Tensor:
    """A copy, some of it overwritten through a mask."""
    made = a.clone()
    made[made > at] = 0.5
    return made


def chosen(a: torch.Tensor, at: float) -> torch.Tensor:
    """What a mask picks, by others."""
    return a.masked_scatter(a > at, a.reshape(-1).flip(0))


def scattered(a: torch.Tensor) -> torch.Tensor:
    """Elements by their places in the order of the rows."""
    order = a.argsort(0)
    return a.scatter(0, order, a).scatter_add(0, order, -a).gather(0, order).index_add(0, torch.arange(len(a)), a)


def steps(a: torch.Tensor) -> tuple[int, ...]:
    """The strides; none where there are no elements, since copies of nothing have others once a graph is functional."""
    return a.stride() if a.numel() else ()


def through(a: torch.Tensor) -> torch.Tensor:
    """A copy, written through views of it."""
    made = a.clone()
    made.reshape(-1)[:2].add_(1)
    made.transpose(0, -1).contiguous().mul_(2)
    made.mT.reshape(made.shape).add_(3) if made.dim() > 1 else made.t().add_(1)
    return made


def overlapped(a: torch.Tensor) -> torch.Tensor:
    """A write that eager refuses where places are one in memory."""
    made = a.clone()[:1].expand(a.shape)
    made.add_(1)
    return made


def filled(a: torch.Tensor) -> torch.Tensor:
    """Two copies, put into one tensor part by part."""
    made = torch.empty(2 * a.size(0), *a.shape[1:])
    made[: a.size(0)] = a
    made[a.size(0) :] = -a
    return made


def outside() -> None:
    """A call that nothing is known of ends the graph."""
    compile("0", "", "eval")


NAMES = {
    "torch": torch,
    "F": F,
    "math": math,
    "paired": paired,
    "written": written,
    "picked": picked,
    "strided": strided,
    "filled": filled,
    "scattered": scattered,
    "chosen": chosen,
    "image": image,
    "last": last,
    "flat": flat,
    "box": box,
    "pooled": pooled,
    "grown": grown,
    "convolved": convolved,
    "masked": masked,
    "steps": steps,
    "through": through,
    "overlapped": overlapped,
    "outside": outside,
}
