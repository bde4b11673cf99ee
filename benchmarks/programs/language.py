"""Around the call: modules copied, saved, nested and wrapped; threads, generators, numpy; other compilers."""

from __future__ import annotations

import contextlib
import copy
import functools
import io
import logging
import pickle
from collections import OrderedDict, deque
from collections.abc import Iterator
from enum import Enum
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.programs.registry import Compile, program


class Block(nn.Module):
    """At module level, so that it can be pickled."""

    def __init__(self, size: int = 6) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(size, size), nn.BatchNorm1d(size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.norm(self.linear(x))) + x


@program()
def state_dict_round_trip(compile: Compile) -> Any:
    model = compile(Block())
    model(torch.randn(4, 6)).sum().backward()
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    other = compile(Block())
    other.load_state_dict(torch.load(file))
    model.eval()
    other.eval()
    x = torch.randn(3, 6)
    return model(x), other(x), len(model.state_dict()), bool(torch.equal(model(x), other(x)))


@program()
def checkpoint_into_the_original(compile: Compile) -> Any:
    original = Block()
    model = compile(original)
    model(torch.randn(8, 6))
    fresh = Block()
    fresh.load_state_dict(original.state_dict())
    return fresh.eval()(torch.ones(1, 6)), model.eval()(torch.ones(1, 6)), original.training, fresh.training


@program()
def deepcopied_module(compile: Compile) -> Any:
    model = compile(Block())
    model(torch.randn(4, 6))
    twin = copy.deepcopy(model)
    with torch.no_grad():
        for p in twin.parameters():
            p.add_(1.0)
    shallow = copy.copy(model)
    x = torch.randn(4, 6)
    model.eval(), twin.eval(), shallow.eval()
    same = [a is b for a, b in zip(model.parameters(), shallow.parameters(), strict=True)]
    return model(x), twin(x), shallow(x), same


@program()
def pickled_module(compile: Compile) -> Any:
    model = compile(Block())
    before = model(torch.randn(4, 6))
    again = pickle.loads(pickle.dumps(model))
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    x = torch.randn(4, 6)
    return before, again.eval()(x), loaded.eval()(x), isinstance(again, nn.Module)


@program()
def compiled_part_of_a_module(compile: Compile) -> Any:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = compile(Block())
            self.blocks = nn.ModuleList([Block(), compile(Block())])
            self.head = nn.Linear(6, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.first(x)
            for block in self.blocks:
                x = block(x)
            return self.head(x)

    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        net(torch.randn(4, 6)).square().mean().backward()
        optimizer.step()
    net.eval()
    modes = [m.training for m in net.modules()]
    net.double()
    out = net(torch.randn(2, 6, dtype=torch.float64))
    count = sum(p.numel() for p in net.parameters())
    return out, any(modes), count, [str(p.dtype) for p in net.parameters()], len(net.state_dict())


@program()
def module_around_and_within(compile: Compile) -> Any:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = compile(Block())
            self.out = nn.Linear(6, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.out(self.inner(x))

    model = compile(Net())
    y = model(torch.randn(5, 6))
    y.sum().backward()
    return y.detach(), [p.grad for p in model.parameters()], [n.split(".")[-1] for n, _ in model.named_parameters()]


@program()
def decorated_methods(compile: Compile) -> Any:
    class Net(nn.Module):
        scale = 2.0

        def __init__(self, size: int) -> None:
            super().__init__()
            self.linear = nn.Linear(size, size)
            self.calls = 0

        @compile
        def forward(self, x: torch.Tensor, *, bias: float = 0.0) -> torch.Tensor:
            self.calls += 1
            return self._scaled(self.linear(x)) + bias

        @staticmethod
        @compile
        def normalise(x: torch.Tensor) -> torch.Tensor:
            return x / x.norm(dim=-1, keepdim=True)

        def _scaled(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.scale

    a, b = Net(3), Net(4)
    out = [a(torch.ones(2, 3)), b(torch.ones(2, 4), bias=1.0), Net.normalise(torch.ones(2, 3)), a(torch.ones(1, 3))]
    return out, a.calls, b.calls


@program()
def forward_replaced(compile: Compile) -> Any:
    model = nn.Sequential(Block(), Block())
    for block in model:
        block.forward = compile(block.forward)
    loss = model(torch.randn(4, 6)).square().mean()
    loss.backward()
    return loss.detach(), [p.grad for p in model.parameters()]


@program()
def peer_within_ours(compile: Compile) -> Any:
    inner = torch.compile(lambda x: torch.sin(x) * 2, backend="eager")

    @compile
    def outer(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        z = inner(y)
        return z.cos() + y

    return [outer(torch.randn(n)) for n in (3, 4, 3)]


@program()
def peer_around_ours(compile: Compile) -> Any:
    @compile
    def inner(x: torch.Tensor) -> torch.Tensor:
        y = torch.sin(x) * 2
        print("inner", end=" ")
        return y + 1

    @torch.compile(backend="eager")
    def outer(x: torch.Tensor) -> torch.Tensor:
        return inner(x + 1).cos() - x

    layer = torch.compile(nn.Sequential(compile(nn.Linear(3, 3)), nn.ReLU()), backend="eager")
    return [outer(torch.randn(n)) for n in (3, 4, 3)], layer(torch.ones(2, 3)).detach()


@program()
def threads_share_a_model(compile: Compile) -> Any:
    from concurrent.futures import ThreadPoolExecutor

    model = compile(nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 2)).eval())

    def serve(i: int) -> torch.Tensor:
        x = torch.full((1 + i % 3, 6), float(i))
        with torch.no_grad():
            return model(x)

    with ThreadPoolExecutor(6) as pool:
        return list(pool.map(serve, range(24)))


@program()
def generator_pipeline(compile: Compile) -> Any:
    def windows(x: torch.Tensor, size: int) -> Iterator[torch.Tensor]:
        for start in range(0, x.size(0) - size + 1, size):
            yield x[start : start + size]

    @compile
    def energies(x: torch.Tensor) -> list[torch.Tensor]:
        return [w.square().mean() for w in windows(x, 4)]

    @compile
    def halves(x: torch.Tensor) -> Iterator[torch.Tensor]:
        while x.numel() > 1:
            x = x[: x.numel() // 2] * 2
            yield x

    return energies(torch.randn(13)), list(halves(torch.randn(16)))


@program()
def numpy_in_the_middle(compile: Compile) -> Any:
    import numpy as np

    @compile
    def smooth(x: torch.Tensor) -> tuple[torch.Tensor, float]:
        array = x.mul(2).detach().numpy()
        kernel = np.hanning(5).astype(np.float32)
        filtered = np.convolve(array, kernel / kernel.sum(), mode="same")
        return torch.from_numpy(filtered) + x, float(np.mean(filtered))

    return smooth(torch.randn(20))


@program()
def logging_and_asserts(compile: Compile) -> Any:
    logger = logging.getLogger("program")
    records: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: records.append(record.getMessage())  # type: ignore[method-assign]
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)

    @compile
    def checked(x: torch.Tensor) -> torch.Tensor:
        assert x.ndim == 2, f"expected a matrix, got {x.ndim} dimensions"
        y = torch.nan_to_num(x.log())
        if torch.isnan(y).any():
            raise ValueError("not a number")
        logger.info("mean %.2f of %s", y.mean().item(), tuple(y.shape))
        return y

    out = [checked(torch.rand(2, 3))]
    try:
        checked(torch.rand(3))
    except AssertionError as error:
        records.append(str(error))
    return out, records


class Mode(Enum):
    MEAN = "mean"
    MAX = "max"


@program()
def enums_match_and_partials(compile: Compile) -> Any:
    @functools.cache
    def table(size: int) -> torch.Tensor:
        return torch.arange(size, dtype=torch.float32)

    def pool(x: torch.Tensor, mode: Mode, *, dim: int = -1) -> torch.Tensor:
        x = x + table(x.size(-1))
        match mode:
            case Mode.MEAN:
                return x.mean(dim)
            case Mode.MAX:
                return x.amax(dim)

    compiled = compile(functools.partial(pool, dim=0))
    x = torch.randn(4, 3)
    return compiled(x, Mode.MEAN), compiled(x, Mode.MAX), compiled(x, mode=Mode("max"))


@program()
def context_managers(compile: Compile) -> Any:
    depth: list[str] = []

    @contextlib.contextmanager
    def scope(name: str) -> Iterator[float]:
        depth.append(name)
        try:
            yield float(len(depth))
        finally:
            depth.pop()

    @compile
    def nested(x: torch.Tensor) -> torch.Tensor:
        with scope("outer") as a, torch.no_grad():
            y = x * a
            with contextlib.suppress(KeyError), scope("inner") as b:
                y = y + b
                {}["missing"]
        return y

    return nested(torch.ones(3, requires_grad=True)), depth


@program()
def replay_buffer(compile: Compile) -> Any:
    buffer: deque[tuple[torch.Tensor, float]] = deque(maxlen=4)
    value = nn.Linear(3, 1)

    @compile
    def learn(state: torch.Tensor, reward: float) -> torch.Tensor:
        buffer.append((state, reward))
        states = torch.stack([s for s, _ in buffer])
        rewards = torch.tensor([r for _, r in buffer])
        return F.smooth_l1_loss(value(states)[:, 0], rewards)

    losses = [learn(torch.randn(3), float(i)) for i in range(6)]
    losses[-1].backward()
    return [x.detach() for x in losses], value.weight.grad, len(buffer)


@program()
def ordered_activations(compile: Compile) -> Any:
    class Recorder(nn.Sequential):
        def forward(self, x: torch.Tensor) -> OrderedDict[str, torch.Tensor]:
            out: OrderedDict[str, torch.Tensor] = OrderedDict()
            for name, module in self.named_children():
                x = module(x)
                if isinstance(module, nn.Linear):
                    out[name] = x
            out.move_to_end("0")
            return out

    found = compile(Recorder(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)))(torch.randn(2, 3))
    return list(found), list(found.values()), type(found).__name__


@program()
def batches_of_many_sizes(compile: Compile) -> Any:
    model = compile(nn.Sequential(nn.Conv1d(3, 8, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool1d(2), nn.Flatten()))
    return [model(torch.randn(n, 3, 10 + n)) for n in (1, 2, 3, 5, 8)]


@program()
def dynamic_shapes_asked_for(compile: Compile) -> Any:
    @compile(dynamic=True)
    def attend(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        score = q @ k.transpose(-1, -2) / q.size(-1) ** 0.5
        causal = torch.ones(q.size(-2), k.size(-2), dtype=torch.bool).tril()
        return score.masked_fill(~causal, float("-inf")).softmax(-1)

    return [attend(torch.randn(2, n, 4), torch.randn(2, n, 4)) for n in (3, 5, 7, 9)]


@program()
def moved_and_cast_after_compiling(compile: Compile) -> Any:
    model = compile(Block())
    first = model(torch.ones(2, 6)).detach()
    model.to(torch.float64)
    second = model(torch.ones(2, 6, dtype=torch.float64)).detach()
    half = model.bfloat16().eval()(torch.ones(2, 6, dtype=torch.bfloat16)).detach()
    return (
        first,
        second,
        half.float().round(decimals=0),
        str(next(model.parameters()).dtype),
        isinstance(model, nn.Module),
    )


@program()
def weights_initialised_through_apply(compile: Compile) -> Any:
    def initialise(module: nn.Module) -> None:
        if isinstance(module, nn.Linear):
            nn.init.constant_(module.weight, 0.1)
            nn.init.zeros_(module.bias)

    model = compile(nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)))
    model.apply(initialise)
    names = [type(m).__name__ for m in model.modules() if isinstance(m, nn.Linear)]
    model[0].bias.data.fill_(1.0)
    return model(torch.ones(2, 3)).detach(), names, len(model), model[-1].weight.detach()


@program()
def exceptions_are_the_users(compile: Compile) -> Any:
    class TooLarge(ValueError):
        pass

    @compile
    def limited(x: torch.Tensor, limit: float) -> torch.Tensor:
        y = x * 2
        if y.max() > limit:
            raise TooLarge(f"{y.max().item():.1f} is over {limit}")
        return y

    out: list[Any] = [limited(torch.ones(2), 3.0)]
    for limit in (1.0, 0.5):
        try:
            limited(torch.ones(2), limit)
        except TooLarge as error:
            out.append(str(error))
    try:
        compile(lambda a, b: a @ b)(torch.ones(2, 3), torch.ones(2, 3))
    except RuntimeError as error:
        out.append("shapes cannot be multiplied" in str(error))
    return out


@program()
def recursion_over_trees(compile: Compile) -> Any:
    cell = nn.Linear(8, 4)

    def encode(tree: Any) -> torch.Tensor:
        if isinstance(tree, torch.Tensor):
            return tree
        left, right = (encode(t) for t in tree)
        return torch.tanh(cell(torch.cat([left, right], -1)))

    leaves = [torch.randn(4) for _ in range(4)]
    encoder = compile(encode)
    first = encoder(((leaves[0], leaves[1]), leaves[2]))
    second = encoder((leaves[3], (leaves[0], (leaves[1], leaves[2]))))
    (first + second).sum().backward()
    return first.detach(), second.detach(), cell.weight.grad
