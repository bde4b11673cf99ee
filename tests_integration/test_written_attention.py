"""Attention that a program writes out runs by torch's one-kernel attention: what is recognised, values and gradients, what is left."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import capture
from aotgrad.attention.constants import Constants
from tests_integration.fusing import Compiled, run

B, H, T, D = 2, 4, 12, 8
SCALE = 0.3
LOWEST = torch.finfo(torch.float32).min


@pytest.fixture(autouse=True)
def _raises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture.config, "on_error", "raise")
    torch.manual_seed(0)


def check(
    function: Any, *args: torch.Tensor, grad: bool = True, found: int = 1, dynamic: bool | None = None
) -> Compiled:
    compiled = Compiled(function, dynamic)
    results = run(compiled.call, args, grad), run(function, args, grad)
    for made, wanted in zip(*results, strict=True):
        torch.testing.assert_close(made, wanted, rtol=1e-4, atol=2e-5, equal_nan=True)
    assert results[0][0].stride() == results[1][0].stride()
    assert len(compiled.found) == found
    kernels = sum("_scaled_dot_product" in name and "backward" not in name for name in compiled.ran)
    assert kernels == found
    return compiled


def qkv(*size: int) -> tuple[torch.Tensor, ...]:
    size = size or (B, H, T, D)
    return tuple(torch.randn(size) for _ in range(3))


def scores(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return q @ k.transpose(-2, -1) * SCALE


PADDED = torch.rand(B, 1, 1, T) < 0.4
PADDED[0, ..., 0] = False
PADDED[1] = True  # rows that see no key


def plain(q: Any, k: Any, v: Any) -> Any:
    return torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(D), -1) @ v


def transposed(q: Any, k: Any, v: Any) -> Any:
    weights = F.softmax(torch.matmul(q, k.transpose(2, 3)) * SCALE, dim=-1, dtype=torch.float32)
    return weights.to(q.dtype).matmul(v).transpose(1, 2).contiguous().view(B, T, -1)


def by_tensor(q: Any, k: Any, v: Any) -> Any:
    scale = torch.full([], D**0.5, dtype=q.dtype, device=q.device)
    return (q.matmul(k.permute(0, 1, 3, 2)) / scale).softmax(3).matmul(v)


def tril(q: Any, k: Any, v: Any) -> Any:
    sees = torch.tril(torch.ones(T, T, dtype=torch.bool))
    return torch.softmax(scores(q, k).masked_fill(~sees, -math.inf), -1) @ v


def triu(q: Any, k: Any, v: Any) -> Any:
    return torch.softmax(scores(q, k) + torch.full((T, T), -math.inf).triu(1), -1) @ v


def ranges(q: Any, k: Any, v: Any) -> Any:
    at = torch.arange(T)
    sees = (at[None] <= at[:, None])[None, None].expand(B, 1, T, T)
    return torch.softmax(scores(q, k) + torch.where(sees, torch.zeros(()), LOWEST), -1) @ v


def window(q: Any, k: Any, v: Any) -> Any:
    at = torch.arange(T)
    apart = at[:, None] - at[None]
    return torch.softmax(torch.where((apart >= 0) & (apart < 4), scores(q, k), LOWEST), -1) @ v


def einsums(q: Any, k: Any, v: Any) -> Any:
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    weights = (torch.einsum("bqhd,bkhd->bhqk", q, k) * SCALE).softmax(-1)
    return torch.einsum("bhqk,bkhd->bqhd", weights, v).reshape(B, T, -1)


def batches(q: Any, k: Any, v: Any) -> Any:
    q, k, v = (x.reshape(B * H, T, D) for x in (q, k, v))
    return torch.bmm(torch.bmm(q, k.transpose(1, 2)).softmax(-1), v).view(B, H, T, D)


def in_place(q: Any, k: Any, v: Any) -> Any:
    found = q @ k.transpose(-2, -1)
    found *= SCALE
    found += torch.full((T, T), -math.inf).triu(1)
    return F.softmax(found.float(), dim=-1).type_as(found) @ v


@pytest.mark.parametrize("function", [plain, transposed, by_tensor, window, einsums, batches])
@pytest.mark.parametrize("grad", [False, True])
def test_written_out(function: Any, grad: bool) -> None:
    (found,) = check(function, *qkv(), grad=grad).found
    assert not found.mask.causal


@pytest.mark.parametrize("function", [tril, triu, ranges, in_place])
def test_a_causal_mask_made_in_the_graph_is_none(function: Any) -> None:
    compiled = check(function, *qkv())
    assert compiled.found[0].mask.causal and compiled.asked[0].masked is False


def filled(low: float) -> Any:
    return lambda q, k, v, mask: torch.softmax(scores(q, k).masked_fill(mask, low), -1) @ v


def chosen(low: float) -> Any:
    return lambda q, k, v, mask: torch.softmax(torch.where(mask, low, scores(q, k)), -1) @ v


def added(low: float) -> Any:
    return lambda q, k, v, mask: torch.softmax(scores(q, k) + torch.where(mask, low, 0.0), -1) @ v


def added_zeros(low: float) -> Any:
    return lambda q, k, v, mask: (
        torch.softmax(torch.zeros(B, 1, 1, T, dtype=q.dtype).masked_fill(mask, low) + scores(q, k), -1) @ v
    )


@pytest.mark.parametrize("made", [filled, chosen, added, added_zeros])
@pytest.mark.parametrize("low", [-math.inf, LOWEST])
@pytest.mark.parametrize("grad", [False, True])
def test_rows_that_see_no_key(made: Any, low: float, grad: bool) -> None:
    """Kernels make zeros of them; a softmax the mean of all values, with gradients, or what is not a number."""
    (found,) = check(made(low), *qkv(), PADDED, grad=grad).found
    assert found.mask.blind


@pytest.mark.parametrize("low", [-math.inf, LOWEST])
def test_a_mask_that_comes_from_outside(low: float) -> None:
    def attend(q: Any, k: Any, v: Any, mask: Any) -> Any:
        return torch.softmax(scores(q, k) + mask, -1) @ v

    mask = torch.zeros(B, 1, T, T)
    mask[1] = low
    mask[0, :, :, 3:] = -math.inf
    with torch.no_grad():
        check(attend, *qkv(), mask, grad=False)
        halves = tuple(x.half() for x in (*qkv(), mask.clamp(min=torch.finfo(torch.float16).min)))
        half = Compiled(attend)
        torch.testing.assert_close(half.call(*halves), attend(*halves), rtol=1e-2, atol=1e-2)
        assert half.found[0].mask.lost
    compiled = Compiled(lambda q, k, v: attend(q, k, v, mask.reshape(B, 1, T, T)))
    run(compiled.call, qkv(), True)
    assert not compiled.found  # of a row that is lost in its mask a kernel's gradients are not exact


def test_groups_of_queries_share_heads() -> None:
    def repeat(x: torch.Tensor) -> torch.Tensor:
        return x[:, :, None, :, :].expand(B, H // 2, 2, T, D).reshape(B, H, T, D)

    def grouped(q: Any, k: Any, v: Any) -> Any:
        return tril(q, repeat(k), repeat(v))

    q, _, _ = qkv()
    compiled = check(grouped, q, *qkv(B, H // 2, T, D)[:2])
    assert compiled.found[0].repeated and "aten::expand" not in compiled.ran


def test_groups_that_are_repeated_in_another_order_are_not_grouped() -> None:
    def grouped(q: Any, k: Any, v: Any) -> Any:
        k, v = (x[:, None].expand(B, 2, H // 2, T, D).reshape(B, H, T, D) for x in (k, v))
        return plain(q, k, v)

    q, _, _ = qkv()
    (found,) = check(grouped, q, *qkv(B, H // 2, T, D)[:2]).found
    assert not found.repeated


@pytest.mark.parametrize("dynamic", [None, True])
def test_sizes_that_change(dynamic: bool | None) -> None:
    def attend(q: Any, k: Any, v: Any) -> Any:
        length = q.shape[2]
        sees = torch.ones(length, length, dtype=torch.bool).tril()
        weights = torch.softmax(scores(q, k).masked_fill(~sees, -math.inf), -1)
        return (weights @ v).transpose(1, 2).reshape(q.shape[0], length, -1)

    compiled = Compiled(attend, dynamic)
    for length in (12, 20, 7):
        args = qkv(B, H, length, D)
        for made, wanted in zip(run(compiled.call, args, True), run(attend, args, True), strict=True):
            torch.testing.assert_close(made, wanted, rtol=1e-4, atol=2e-5)
    assert all("_softmax" not in name for name in compiled.ran)


def _weights_read(q: Any, k: Any, v: Any) -> Any:
    weights = torch.softmax(scores(q, k), -1)
    return torch.cat([weights @ v, weights], -1)


def _scaled_behind_the_mask(q: Any, k: Any, v: Any) -> Any:
    return torch.softmax((q @ k.transpose(-2, -1) + torch.rand(T)) * SCALE, -1) @ v


def _over_queries(q: Any, k: Any, v: Any) -> Any:
    return torch.softmax(scores(q, k), -2) @ v


def _without_gradients_in_part(q: Any, k: Any, v: Any) -> Any:
    with torch.no_grad():
        found = scores(q, k)
    return torch.softmax(found, -1) @ v * q.sum()


def _negative_scale(q: Any, k: Any, v: Any) -> Any:
    return torch.softmax(q @ k.transpose(-2, -1) * -SCALE, -1) @ v


def _high_fill(q: Any, k: Any, v: Any) -> Any:
    return torch.softmax(scores(q, k).masked_fill(torch.ones(T, T, dtype=torch.bool).triu(1), -2.0), -1) @ v


def _soft_cap(q: Any, k: Any, v: Any) -> Any:
    return torch.softmax(torch.tanh(scores(q, k)), -1) @ v


@pytest.mark.parametrize(
    "function",
    [
        *(_weights_read, _scaled_behind_the_mask, _over_queries, _without_gradients_in_part, _negative_scale),
        *(_high_fill, _soft_cap),
    ],
)
def test_what_is_no_attention_or_not_only(function: Any) -> None:
    compiled = Compiled(function)
    args = qkv()
    torch.manual_seed(2)
    made = run(compiled.call, args, True)
    torch.manual_seed(2)
    for one, wanted in zip(made, run(function, args, True), strict=True):
        torch.testing.assert_close(one, wanted, rtol=1e-4, atol=2e-5)
    assert not compiled.found


def test_a_factor_that_is_written_to_on_the_way() -> None:
    def attend(q: Any, k: Any, v: Any) -> Any:
        q = q * 1
        found = scores(q, k)
        q.add_(1)
        return torch.softmax(found, -1) @ v + q

    assert not check(attend, *qkv(), grad=False, found=0).found


def test_factors_that_are_written_to_once_they_were_copied() -> None:
    def widened(q: Any, k: Any, v: Any) -> Any:
        q = q * 1
        wide = q.float()
        q.add_(1)
        return torch.softmax(wide @ k.float().transpose(-2, -1), -1).to(q.dtype) @ v

    def repeated(q: Any, k: Any, v: Any) -> Any:
        k, v = k[:, :2] * 1, v[:, :2]
        keys, values = (x[:, :, None, :, :].expand(B, 2, 2, T, D).reshape(B, H, T, D) for x in (k, v))
        k.add_(1)
        return torch.softmax(scores(q, keys), -1) @ values

    halves = tuple(x.bfloat16() for x in qkv())
    for function, args in ((widened, halves), (repeated, qkv())):
        compiled = Compiled(function)
        with torch.no_grad():
            torch.testing.assert_close(compiled.call(*args), function(*args), rtol=2e-2, atol=2e-2)
        assert not any(found.repeated for found in compiled.found)


@pytest.mark.parametrize("made", [filled, added_zeros])
@pytest.mark.parametrize("low", [torch.finfo(torch.float16).min, -math.inf])
def test_rows_that_see_no_key_in_half_precision(made: Any, low: float) -> None:
    args = tuple(x.half() for x in qkv())
    compiled = Compiled(made(low))
    wanted = run(made(low), (*args, PADDED), True)
    for one, other in zip(run(compiled.call, (*args, PADDED), True), wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-2, atol=1e-2, equal_nan=True)
    assert len(compiled.found) == 1


def test_constants_of_another_device() -> None:
    """Masks are computed on the host while compiling, wherever the program makes them."""

    def attend(q: Any, k: Any, v: Any) -> Any:
        return torch.softmax(scores(q, k) + torch.full((T, T), -math.inf, device="meta").triu(1), -1) @ v

    graph = capture.trace(attend, *(x.to("meta") for x in qkv())).graphs[0].module.graph
    masks = [node for node in graph.nodes if node.target == "triu"]
    (value,) = (Constants(graph).of(node) for node in masks)
    assert torch.equal(value, torch.full((T, T), -math.inf).triu(1))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_as_exact_as_eager_in_half_precision(dtype: torch.dtype) -> None:
    args = tuple(x.to(dtype) for x in qkv(B, H, 96, 64))
    exact = run(plain, tuple(x.double() for x in args), False)[0]
    compiled = Compiled(plain)
    mine, eager = (run(f, args, False)[0].double().sub(exact).abs().max() for f in (compiled.call, plain))
    assert len(compiled.found) == 1 and mine <= eager * 1.05


def test_weights_that_are_dropped() -> None:
    def attend(q: Any, k: Any, v: Any) -> Any:
        return F.dropout(torch.softmax(scores(q, k), -1), 0.25) @ v

    compiled = Compiled(attend)
    compiled.call(*qkv())
    assert not compiled.found  # torch has no kernel that drops, on the CPU
    assert {asked.dropout for asked in compiled.asked} == {0.25}


def test_gradients_in_an_order_that_does_not_vary() -> None:
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        assert not check(plain, *qkv(), found=0).found
        assert check(plain, *qkv(), grad=False).found
    finally:
        torch.use_deterministic_algorithms(before)


def test_differentiated_twice() -> None:
    """The program that was written out is; torch's kernels can't be."""
    q, k, v = (x.requires_grad_() for x in qkv())
    compiled = Compiled(plain)
    results = []
    for function in (compiled.call, plain):
        (first,) = torch.autograd.grad(function(q, k, v).sin().sum(), q, create_graph=True)
        results.append(torch.autograd.grad(first.pow(2).sum(), [q, k, v]))
    assert len(compiled.found) == 1
    for made, wanted in zip(*results, strict=True):
        torch.testing.assert_close(made, wanted, rtol=1e-4, atol=1e-5)


def _models() -> Iterator[Any]:
    transformers = pytest.importorskip("transformers")
    common = {"vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4}
    common |= {"intermediate_size": 37, "attn_implementation": "eager"}
    still = {"attention_probs_dropout_prob": 0.0, "hidden_dropout_prob": 0.0}
    yield "Bert", transformers.BertModel, transformers.BertConfig(**common, **still), 1
    yield "Albert", transformers.AlbertModel, transformers.AlbertConfig(**common, **still, embedding_size=16), 1
    yield "Llama", transformers.LlamaModel, transformers.LlamaConfig(**common, num_key_value_heads=2), 1
    own = {"bos_token_id": 0, "eos_token_id": 0, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    own |= {"n_embd": 32, "n_layer": 1, "n_head": 4, "attn_implementation": "eager"}
    yield "GPT2", transformers.GPT2Model, transformers.GPT2Config(vocab_size=99, n_positions=64, **own), 1
    own = {"d_model": 32, "d_kv": 8, "d_ff": 37, "num_layers": 1, "num_heads": 4, "dropout_rate": 0.0}
    yield "T5", transformers.T5EncoderModel, transformers.T5Config(**own, vocab_size=99, attn_implementation="eager"), 1


@pytest.mark.parametrize("name", ["Bert", "Albert", "Llama", "GPT2", "T5"])
def test_models(name: str) -> None:
    _, model, config, found = next(each for each in _models() if each[0] == name)
    module = model(config).eval()
    ids, mask = torch.randint(0, 99, (2, 16)), torch.ones(2, 16, dtype=torch.int64)
    mask[1, :6] = 0  # to the left: causal, these rows see no key
    options = {} if name in ("Bert", "Albert", "T5") else {"use_cache": False}
    compiled = Compiled(module)
    with torch.no_grad():
        made, wanted = (call(ids, attention_mask=mask, **options)[0] for call in (compiled.call, module))
    torch.testing.assert_close(made, wanted, rtol=1e-4, atol=2e-5)
    assert len(compiled.found) == found
