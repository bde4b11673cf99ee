"""The same call again within one evaluation: what it gives is like what it gave, and a tensor of its own."""

import pytest
import torch

import capture
from capture.evaluator.known_results import KnownResults
from capture.graph import GraphBuilder

F = torch.nn.functional
WEIGHT, BIAS = torch.randn(4, 4), torch.randn(4)


@pytest.fixture
def found(monkeypatch):
    """The calls whose results were known."""
    calls = []
    before = KnownResults.find

    def find(self, call, args):
        result = before(self, call, args)
        if result is not None:
            calls.append(call)
        return result

    monkeypatch.setattr(KnownResults, "find", find)
    return calls


def agrees(function, *args, no_grad=True):
    with torch.set_grad_enabled(not no_grad):
        expected = function(*(a.clone() for a in args))
        result = capture.compile(function, fullgraph=True)(*(a.clone() for a in args))
    torch.testing.assert_close(result, expected, rtol=0, atol=0)
    assert result.requires_grad == expected.requires_grad
    return result


def test_layers_of_one_kind(found):
    def layers(x):
        for _ in range(4):
            x = F.layer_norm(F.gelu(F.linear(x, WEIGHT, BIAS)) + x, (4,))
        return x

    agrees(layers, torch.randn(2, 3, 4))
    assert len(found) >= 3 * 3


def test_results_are_tensors_of_their_own(found):
    def function(x):
        a, b = x + 1, x + 1
        a.add_(1)
        return torch.stack([a, b, x + 1])

    agrees(function, torch.randn(3))
    assert found


def test_what_is_given_back(found):
    def function(x):
        y = F.dropout(x, 0.5, False)
        z = F.dropout(x, 0.5, False)
        other = F.dropout(x + 1, 0.5, False)
        y.mul_(2)
        return torch.stack([x, y, z, other])

    agrees(function, torch.randn(3))
    assert found


def test_arguments_that_differ(found):
    def function(x):
        parts = [
            x.sum(0),
            x.sum(1),
            x.sum(0, True),
            x.sum(0, False),
            x.t() + 1,
            x + 1,
            x + 1.5,
            x.to(torch.float64) + 1,
        ]
        return torch.cat([part.reshape(-1).double() for part in parts])

    agrees(function, torch.randn(3, 3))


def test_settings_in_between(found):
    def function(x):
        a = (x + 1) * 2
        with torch.autocast("cpu", torch.bfloat16):
            b = F.linear(x, WEIGHT) + 0
        c = F.linear(x, WEIGHT) + 0
        return torch.cat([a, b.float(), c])

    agrees(function, torch.randn(2, 4))


def test_gradients(found):
    def function(x, w):
        y = x * 2 + x * 2
        with torch.no_grad():
            z = w * 2 + w * 2
        return y.sum() * (w * 2 + w * 2) + z

    w = torch.randn(3, requires_grad=True)
    compiled = capture.compile(function, fullgraph=True)
    expected, result = function(torch.ones(3), w), compiled(torch.ones(3), w)
    assert torch.equal(result, expected)
    assert torch.equal(*(torch.autograd.grad(each.sum(), w)[0] for each in (result, expected)))


def test_what_becomes_a_leaf(found):
    """Each call gives back what it was given, as that was not before."""

    def function(x):
        a, b = x + 1, x + 2
        a.requires_grad_()
        b.requires_grad_()
        return a, b, [a.requires_grad, b.requires_grad]

    x = torch.ones(2)
    with torch.no_grad():
        expected, result = function(x), capture.compile(function, fullgraph=True)(x)
    assert result[2] == expected[2]
    assert [each.requires_grad for each in result[:2]] == [each.requires_grad for each in expected[:2]]


def test_random_numbers_are_drawn_each_time():
    def function(x):
        return torch.rand_like(x) - torch.rand_like(x)

    assert capture.compile(function, fullgraph=True)(torch.zeros(8)).abs().sum() > 0


def outcome(function, *args):
    try:
        return function(*args)
    except RuntimeError as error:
        return str(error).partition("\n")[0]


def test_views_where_they_count(found):
    """`linear` gives a view of what it computed, which `detach_` refuses."""

    def function(x):
        a, b = F.linear(x, WEIGHT, BIAS), F.linear(x, WEIGHT, BIAS)
        try:
            return b.detach_() + a
        except RuntimeError:
            return a - 1

    def written_with_gradients_on(x):
        a, b = F.linear(x, WEIGHT, BIAS), F.linear(x, WEIGHT, BIAS)
        with torch.enable_grad():
            b.add_(1)
        return a + b

    x = torch.randn(2, 3, 4)
    for each in (function, written_with_gradients_on):
        with torch.no_grad():
            expected, result = outcome(each, x), outcome(capture.compile(each), x)
        if isinstance(expected, str):
            assert result == expected
        else:
            assert torch.equal(result, expected)
    assert found


def test_symbolic_strides_and_sizes(found):
    def function(x):
        return (x + 1) * 2 + (x + 1) * 2

    compiled = capture.compile(function, dynamic=True, fullgraph=True)
    for shape in ((3, 4), (5, 4), (5, 7)):
        x = torch.randn(shape)
        assert torch.equal(compiled(x), function(x))
        assert torch.equal(compiled(x.t()), function(x.t()))


@pytest.mark.parametrize("change", ["t_", "squeeze_", "unsqueeze_"])
def test_a_result_that_is_laid_out_anew_tells_nothing_of_the_next(change):
    def fn(x):
        first = x + 1
        first = getattr(first, change)(*([0] if change == "unsqueeze_" else []))
        second = x + 1
        return first, second, torch.zeros(second.shape)

    x = torch.randn(3, 1)
    with torch.no_grad():
        found = capture.compile(fn, fullgraph=True)(x)
        assert all(map(torch.equal, found, fn(x)))


def test_views(found):
    """The heads of each layer's attention."""

    def layers(x):
        for _ in range(4):
            heads = F.linear(x, WEIGHT, BIAS).view(2, 3, 2, 2).transpose(1, 2)
            x = x + F.scaled_dot_product_attention(heads, heads, heads).transpose(1, 2).reshape(2, 3, 4)
        return x

    agrees(layers, torch.randn(2, 3, 4))
    assert [call[1] for call in found].count("transpose") == 2 * 3
    assert [call[1] for call in found].count(F.scaled_dot_product_attention) == 3


def _through_a_view(x):
    first, second = x.view(4), x.view(4)
    second.add_(1)
    return first * 2


def _through_what_it_is_of(x):
    first, second = x.view(4), x.view(4)
    x.add_(1)
    return first + second


def _through_a_view_of_a_view(x):
    views = [x.transpose(0, 1).reshape(4) for _ in range(2)] + [x.transpose(0, 1)[0] for _ in range(2)]
    views[-1].mul_(3)
    return views[0] + views[-2].sum()


def _before_and_after(x):
    for _ in range(3):
        x.view(4).add_(1)
    return x.view(4), x.t()


def _of_a_result(x):
    made = torch.zeros(2, 2)
    first, second = made[0], made[0]
    second.add_(x[0])  # whose sizes, where they are symbols, are held to be alike
    return first + made * x


@pytest.mark.parametrize("dynamic", [None, False, True])
def test_writes_to_views_of_results(dynamic):
    """Once is enough to see one: what was taken for no views is evaluated again, and is one graph."""
    x = torch.arange(4.0).view(2, 2)
    with torch.no_grad():
        expected, result = _of_a_result(x), capture.compile(_of_a_result, fullgraph=True, dynamic=dynamic)(x)
    assert torch.equal(result, expected)


def _laid_out_anew(x):
    first, second = x.t(), x.t()
    second.t_()
    return first + 0, second + 0


@pytest.mark.parametrize(
    "function",
    [_through_a_view, _through_what_it_is_of, _through_a_view_of_a_view, _before_and_after, _laid_out_anew],
)
def test_writes_to_views(function, monkeypatch):
    """A view that was known counts its writes alone: what is written to is seen all the same."""
    changed = []
    tell = GraphBuilder.changed_inputs
    monkeypatch.setattr(GraphBuilder, "changed_inputs", lambda graph: changed.append(tell(graph)) or changed[-1])
    ours, eager = torch.arange(4.0).view(2, 2), torch.arange(4.0).view(2, 2)
    with torch.no_grad():
        expected, result = function(eager), capture.compile(function, fullgraph=True)(ours)
    assert torch.equal(ours, eager)
    torch.testing.assert_close(result, expected, rtol=0, atol=0)
    assert changed[-1] == [True]


def test_what_is_drawn_again(found):
    """Each draws from where the call before left off."""

    def function(x):
        return [torch.rand_like(x) for _ in range(3)]

    x, compiled = torch.ones(8), capture.compile(function, fullgraph=True)
    with torch.no_grad():
        for seed in range(2):
            torch.manual_seed(seed)
            expected, after = function(x), torch.rand(1)
            torch.manual_seed(seed)
            assert all(map(torch.equal, compiled(x), expected))
            assert torch.equal(torch.rand(1), after)
    assert len(found) == 2
    (graph,) = capture.report(compiled).graphs
    assert sum(bool(node.meta.get("draws")) for node in graph.module.graph.nodes) == 3


def test_slices(found):
    """Parts of one kind are known; a write to one counts as one to what it is a part of."""

    def parts(x):
        a, b, c = x[:, 1:3], x[:, 1:3], x[:, 1:]
        b.add_(1)
        return a + b + c[:, :2] + x[:, :2]

    agrees(parts, torch.arange(16.0).reshape(4, 4))

    def kept_apart(x):
        return x[None, 1:] + x[None, 1:].sum()

    found.clear()
    agrees(kept_apart, torch.randn(4))
    assert any("getitem" in str(call[1]) for call in found)
