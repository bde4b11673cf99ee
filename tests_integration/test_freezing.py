"""Frozen models against eager: what they compute, and that no constant outlives what it was computed from."""

from __future__ import annotations

import copy
import functools
import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import meta


@pytest.fixture(autouse=True)
def _inference() -> Iterator[None]:
    torch.manual_seed(0)
    with torch.no_grad():
        yield


def freeze(module: Any, **options: Any) -> Any:
    return meta.compile(module, options={"freezing": True, **options}, fullgraph=True)


def frozen(compiled: Any) -> list[str]:
    """Where the constants of its last graph are from."""
    return [source.name for source in meta.report(compiled).graphs[-1].frozen]


def close(one: torch.Tensor, other: torch.Tensor, tolerance: float = 1e-4) -> None:
    torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)


def settled(model: nn.Module, *sizes: int) -> nn.Module:
    """A model in inference whose batch norms have seen images."""
    model.train()
    for _ in range(3):
        model(torch.randn(*sizes) * 2 + 0.5)
    return model.eval()


class Block(nn.Module):
    def __init__(self, channels: int, groups: int = 1) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1, groups=groups, bias=False)
        self.norm = nn.BatchNorm2d(channels)
        self.second = nn.Conv2d(channels, channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(x + self.second(F.hardswish(self.norm(self.first(x)))))


class Images(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(inplace=True))
        self.blocks = nn.Sequential(Block(16), Block(16, groups=16), nn.MaxPool2d(2), Block(16, groups=4))
        self.head = nn.Linear(16, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))


class Text(nn.Module):
    """An encoder whose output projection is its embedding."""

    def __init__(self, batched: bool = True) -> None:
        super().__init__()
        self.embedding = nn.Embedding(50, 32)
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(32, 4, 64, batch_first=True) for _ in range(2))
        self.register_buffer("mask", torch.full((20, 20), float("-inf")).triu(1))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x, src_mask=self.mask[: x.shape[1], : x.shape[1]])
        return x @ self.embedding.weight.t()


def images(*size: int) -> torch.Tensor:
    return torch.randn(*(size or (2, 3, 24, 24)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_images(dtype: torch.dtype) -> None:
    model = settled(Images(), 4, 3, 24, 24).to(dtype)
    compiled, x = freeze(model), images().to(dtype)
    for _ in range(3):
        close(compiled(x), model(x), 1e-4 if dtype is torch.float32 else 5e-2)
    assert len(frozen(compiled)) == 28


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_text_with_a_tied_weight(dtype: torch.dtype) -> None:
    model = Text().eval().to(dtype)
    compiled, tokens = freeze(model), torch.randint(50, (2, 12))
    close(compiled(tokens), model(tokens), 1e-4 if dtype is torch.float32 else 1e-1)
    assert frozen(compiled).count("self.embedding.weight") == 1


def test_sizes_that_change() -> None:
    model = settled(Images(), 4, 3, 24, 24)
    compiled = freeze(model)
    for size in (24, 32, 40, 24, 36):
        x = images(2, 3, size, size)
        close(compiled(x), model(x))
    assert all(graph.frozen for graph in meta.report(compiled).graphs)
    text = Text().eval()
    compiled = freeze(text)
    for size in (5, 7, 9, 12):
        close(compiled(tokens := torch.randint(50, (2, size))), text(tokens))


@pytest.mark.parametrize("name", ["resnet18", "mobilenetv3_small_100", "convnext_atto", "regnety_002"])
def test_models_of_timm(name: str) -> None:
    timm = pytest.importorskip("timm")
    model = settled(timm.create_model(name, num_classes=10), 2, 3, 64, 64)
    compiled, x = freeze(model), images(1, 3, 64, 64)
    close(compiled(x), model(x), 1e-3)
    close(compiled(x), model(x), 1e-3)
    assert not meta.report(compiled).graphs[0].unfrozen


def test_bert() -> None:
    transformers = pytest.importorskip("transformers")
    shape = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
    model = transformers.BertModel(transformers.BertConfig(vocab_size=100, **shape)).eval()
    compiled, tokens = meta.compile(model, options={"freezing": True}), torch.randint(100, (1, 16))
    close(compiled(tokens).last_hidden_state, model(tokens).last_hidden_state)


# The module goes on living


def test_the_module_and_a_compile_without_freezing_are_as_before() -> None:
    model = settled(Images(), 4, 3, 24, 24)
    before, x = copy.deepcopy(model.state_dict()), images()
    expected = model(x)
    compiled, plain = freeze(model), meta.compile(model)
    close(compiled(x), expected)
    close(plain(x), expected)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    model.head.weight.add_(1)
    close(plain(x), model(x))
    with torch.enable_grad():
        model(x).sum().backward()
        assert model.stem[0].weight.grad is not None


WRITES: dict[str, Callable[[nn.Module], Any]] = {
    "load_state_dict": lambda model: model.load_state_dict(settled(Images(), 4, 3, 24, 24).state_dict()),
    "load_state_dict assigning": lambda model: model.load_state_dict(
        settled(Images(), 4, 3, 24, 24).state_dict(), assign=True
    ),
    "in place": lambda model: model.stem[0].weight.mul_(2),
    "in place, of a buffer": lambda model: model.stem[1].running_var.mul_(2),
    "of a view": lambda model: model.head.weight[0].mul_(2),
    "a new parameter": lambda model: setattr(model.head, "weight", nn.Parameter(torch.randn(10, 16))),
    "a new buffer": lambda model: setattr(model.stem[1], "running_mean", torch.randn(16)),
    "a new module": lambda model: setattr(model, "head", nn.Linear(16, 10)),
    "an equal module": lambda model: setattr(model, "blocks", settled(nn.Sequential(*Images().blocks), 2, 16, 8, 8)),
    "training": lambda model: model.stem.train() and model(images()) is not None and model.stem.eval(),
    "optimizer": lambda model: _step(model),
    "dtype": lambda model: model.double().float() and model.head.weight.add_(1),
}


def _step(model: nn.Module) -> None:
    with torch.enable_grad():
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        model(images()).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


@pytest.mark.parametrize("name", WRITES)
def test_changes_are_seen(name: str) -> None:
    model = settled(Images(), 4, 3, 24, 24)
    compiled, x = freeze(model), images()
    for _ in range(4):  # an often changed tensor is no constant any more
        before = model(x)
        close(compiled(x), before)
        WRITES[name](model)
        assert not torch.allclose(model(x), before, rtol=1e-4, atol=1e-4)
        close(compiled(x), model(x), 1e-3)


def test_modules_do_not_share_constants() -> None:
    models = [settled(Images(), 4, 3, 24, 24) for _ in range(3)]
    compiled = [freeze(model) for model in models]
    x = images()
    for _ in range(2):
        for model, call in zip(models, compiled, strict=True):
            close(call(x), model(x))

    def either(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return model(x)

    call = freeze(either)
    for model in (*models, *models):
        close(call(model, x), model(x))


def test_parameters_that_change_places() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.a(x).relu() - self.b(x)

    model, x = Two(), torch.randn(2, 4)
    compiled = freeze(model)
    close(compiled(x), model(x))
    model.a, model.b = model.b, model.a
    close(compiled(x), model(x))
    model.a.weight = model.b.weight
    close(compiled(x), model(x))
    model.a.weight, model.b.weight = nn.Parameter(torch.randn(4, 4)), model.a.weight
    close(compiled(x), model(x))


def test_what_the_graph_writes_is_no_constant() -> None:
    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", torch.zeros(4))
            self.weight = nn.Parameter(torch.randn(4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.seen.add_(x)
            return self.seen * self.weight

    model = Counter()
    eager, compiled = copy.deepcopy(model), freeze(model)
    for _ in range(3):
        close(compiled(x := torch.randn(4)), eager(x))
    close(model.seen, eager.seen)
    (graph,) = meta.report(compiled).graphs
    assert [source.name for source in graph.frozen] == ["self.weight"]
    assert graph.unfrozen == ["self.seen: the graph writes to its memory"]


def test_what_eager_code_writes_between_calls_becomes_an_input() -> None:
    class Cached(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("cache", torch.zeros(4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * (self.cache + 1).exp()

    model = Cached()
    compiled, x = freeze(model), torch.randn(4)
    for step in range(8):
        close(compiled(x), model(x))
        model.cache[step % 4] += 1
    assert len(meta.report(compiled).graphs) == 1


def test_a_parameter_that_is_given_out_is_the_parameter() -> None:
    class Giving(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(4, 3))

        def forward(self, x: torch.Tensor) -> Any:
            return self.weight, self.weight.t(), x @ self.weight, self.weight.exp()

    model = Giving()
    compiled, x = freeze(model), torch.randn(2, 4)
    for _ in range(2):
        itself, view, product, new = compiled(x)
        assert itself is model.weight
        assert view.data_ptr() == model.weight.data_ptr()
        close(product, x @ model.weight)
        new.zero_()
        view.add_(1)
        close(compiled(x)[3], model.weight.exp())


def test_a_view_of_a_parameter_as_an_argument_that_is_written() -> None:
    class Writing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(4, 4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x.add_(1)
            return self.weight.exp() + x

    model = Writing()
    eager, compiled = copy.deepcopy(model), meta.compile(model, options={"freezing": True})
    close(compiled(x := torch.randn(4)), eager(x - 1))
    for _ in range(2):
        close(compiled(model.weight[1]), eager(eager.weight[1]))
    close(compiled(x := torch.randn(4)), eager(x - 1))


def test_with_gradients_nothing_is_frozen_and_the_report_says_so() -> None:
    model, x = nn.Linear(4, 3), torch.randn(2, 4)
    compiled = freeze(model)
    with torch.enable_grad():
        compiled(x).sum().backward()
        assert model.weight.grad is not None
        assert not frozen(compiled)
        assert "not frozen: all parameters and buffers: the results require gradients" in str(meta.report(compiled))
    close(compiled(x), model(x))
    assert frozen(compiled) == ["self.weight", "self.bias"]
    with torch.enable_grad():
        model.weight.add_(1) if not model.weight.requires_grad else model.weight.data.add_(1)
        model.zero_grad()
        compiled(x).sum().backward()
        assert model.weight.grad is not None


def test_inference_mode_and_autocast() -> None:
    model = settled(Images(), 4, 3, 24, 24)
    compiled, x = freeze(model), images()
    with torch.inference_mode():
        close(compiled(x), model(x))
    close(compiled(x), model(x))
    with torch.autocast("cpu", torch.bfloat16):
        close(compiled(x), model(x), 5e-2)
    close(compiled(x), model(x))


def test_many_instances_of_a_layer() -> None:
    layers = nn.ModuleList(Block(8) for _ in range(20)).eval()
    compiled = [freeze(layer) for layer in layers]
    x = images(1, 8, 6, 6)
    for layer, call in zip(layers, compiled, strict=True):
        close(call(x), layer(x))
    assert not any(meta.report(call).skipped for call in compiled)


def test_a_graph_that_breaks_at_each_layer() -> None:
    class Breaking(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(20))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for layer in self.layers:
                x = self.step(layer, x)
            return x

        def step(self, layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
            compile("0", "", "eval")
            return layer(x).tanh()

    model, x = Breaking(), torch.randn(2, 4)
    compiled = meta.compile(model, options={"freezing": True})
    for _ in range(2):
        close(compiled(x), model(x))
    assert not meta.report(compiled).skipped


def test_the_disk_cache_keeps_no_weights(tmp_path: Any) -> None:
    x = images()
    for _ in range(2):
        model = settled(Images(), 4, 3, 24, 24)
        compiled = freeze(model, cache=True, cache_dir=str(tmp_path))
        close(compiled(x), model(x))
        meta.reset()
    assert not list(tmp_path.rglob("constants.bin"))


# What is dropped, and what is written behind the versions' back


def real_tensors(size: tuple[int, ...]) -> int:
    """Of this size, with memory."""
    gc.collect()
    kinds = (torch.Tensor, nn.Parameter)
    return sum(type(t) in kinds and t.shape == size and t.device.type == "cpu" for t in gc.get_objects())


class Wide(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(37, 41))
        self.register_buffer("shift", torch.randn(37, 41))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.weight.exp() + self.shift.sum()


@pytest.mark.parametrize("lasting", [False, True])
def test_constants_go_with_their_module(lasting: bool) -> None:
    def call(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return model(x)

    shared, x, other = freeze(call), torch.randn(2, 37), Wide()
    close(shared(other, x), other(x))
    before = real_tensors((37, 41))
    for _ in range(3):
        model = Wide()
        compiled = functools.partial(shared, model) if lasting else freeze(model)
        for _ in range(2):
            close(compiled(x), model(x))
        assert real_tensors((37, 41)) > before
        gone = weakref.ref(model.weight)
        del model, compiled
        assert real_tensors((37, 41)) == before and gone() is None
    close(shared(other, x), other(x))
    assert str(meta.report(shared))


def test_a_module_that_dies_takes_no_other_with_it() -> None:
    models = [Wide() for _ in range(3)]
    compiled, x = [freeze(model) for model in models], torch.randn(2, 37)
    for model, call in zip(models, compiled, strict=True):
        close(call(x), model(x))
    del models[1], model, compiled[1], call
    gc.collect()
    for model, call in zip(models, compiled, strict=True):
        graphs = len(meta.report(call).graphs)
        close(call(x), model(x))
        assert len(meta.report(call).graphs) == graphs


@pytest.mark.parametrize("fused", [False, True])
def test_steps_of_optimizers_are_seen(fused: bool) -> None:
    """Kernels of fused optimizers write without a version that tells so."""
    model, x = nn.Linear(4, 3), torch.randn(2, 4)
    compiled = freeze(model)
    optimizer = torch.optim.SGD(model.parameters(), 0.5, fused=fused)
    for _ in range(4):
        before = model(x)
        close(compiled(x), before)
        with torch.enable_grad():
            model(x).square().mean().backward()
            optimizer.step()
        assert not torch.allclose(model(x), before, rtol=1e-4, atol=1e-4)
        close(compiled(x), model(x))


MEMORY: dict[str, Callable[[nn.Linear], Any]] = {
    "data": lambda model: setattr(model.weight, "data", torch.randn(3, 4)),
    "data laid out differently": lambda model: setattr(model.weight, "data", torch.randn(4, 3).t()),
    "dtype and back": lambda model: model.to(torch.float8_e4m3fn).float(),
    "vector_to_parameters": lambda model: nn.utils.vector_to_parameters(
        2 * nn.utils.parameters_to_vector(model.parameters()), model.parameters()
    ),
}


@pytest.mark.parametrize("name", MEMORY)
def test_other_memory_is_seen(name: str) -> None:
    model, x = nn.Linear(4, 3), torch.randn(2, 4)
    compiled = freeze(model)
    close(compiled(x), model(x))
    for _ in range(3):
        MEMORY[name](model)
        close(compiled(x), model(x))


def test_what_is_made_in_inference_mode_is_no_constant() -> None:
    with torch.inference_mode():
        model, x = nn.Linear(4, 3), torch.randn(2, 4)
        compiled = freeze(model)
        for _ in range(3):
            close(compiled(x), model(x))
            model.weight.mul_(2)
        close(compiled(x), model(x))
    assert not frozen(compiled)
    assert "inference mode" in str(meta.report(compiled))
