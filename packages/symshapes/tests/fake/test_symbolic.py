"""Fake tensors with symbolic sizes: what ops make of them, and which guards they leave."""

import pytest
import torch
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from symshapes import DimPolicy, FakeMode, ShapeEnv, SymNode, TensorMeta
from symshapes.rules import registry

DYNAMIC, STATIC = DimPolicy.DYNAMIC, DimPolicy.STATIC


class Made:
    """A mode with its ShapeEnv, and fakes with dynamic dimensions out of it."""

    def __init__(self) -> None:
        self.env = ShapeEnv()
        self.mode = FakeMode(self.env)

    def __call__(self, *size, dynamic=(0,), source="x", grad=False, dtype=torch.float32):
        real = torch.zeros(size, dtype=dtype, requires_grad=grad)
        policy = [DYNAMIC if dim in dynamic else STATIC for dim in range(len(size))]
        return self.mode.from_tensor(real, source=source, policy=policy)

    @property
    def guards(self):
        return [guard.text for guard in self.env.guards]


@pytest.fixture
def make():
    return Made()


def _sizes(t):
    return [str(length) for length in t.shape], [str(step) for step in t.stride()]


def test_strides_follow_the_symbols(make):
    x = make(7, 5, 16, dynamic=(0, 1))
    assert _sizes(x) == (["s0", "s1", "16"], ["16*s1", "16", "1"])


def test_strides_of_a_transposed_tensor_follow_too(make):
    real = torch.zeros(5, 7).t()
    x = make.mode.from_tensor(real, source="x", policy=DYNAMIC)
    assert str(x.stride()[1]) == str(x.shape[0])


# (a program of x: (s0, s1, 16), the sizes of its result)
UNGUARDED = {
    "pointwise": (lambda x: (x + 1).relu() * x, ["s0", "s1", "16"]),
    "linear": (lambda x: F.linear(x, torch.zeros(4, 16), torch.zeros(4)), ["s0", "s1", "4"]),
    "softmax": (lambda x: x.softmax(-1), ["s0", "s1", "16"]),
    "layer norm": (lambda x: F.layer_norm(x, (16,)), ["s0", "s1", "16"]),
    "sum": (lambda x: x.sum(1), ["s0", "16"]),
    "flatten": (lambda x: x.view(-1, 16), ["s0*s1", "16"]),
    "heads": (lambda x: x.view(x.size(0), x.size(1), 4, 4).transpose(1, 2), ["s0", "4", "s1", "4"]),
    "heads and back": (
        lambda x: x.view(x.size(0), x.size(1), 4, 4).transpose(1, 2).reshape(x.size(0), -1, 16),
        ["s0", "s1", "16"],
    ),
    "cat": (lambda x: torch.cat([x, x], 1), ["s0", "2*s1", "16"]),
    "slice": (lambda x: x[1:, :-1], ["s0 - 1", "s1 - 1", "16"]),
    "bmm": (lambda x: x @ x.transpose(1, 2), ["s0", "s1", "s1"]),
    "matmul": (lambda x: x @ torch.zeros(16, 3), ["s0", "s1", "3"]),
    "matmul of a transpose": (lambda x: x.transpose(0, 1) @ torch.zeros(16, 3), ["s1", "s0", "3"]),
    "matrix with vector": (lambda x: x @ torch.zeros(16), ["s0", "s1"]),
    "matrix on the left": (lambda x: torch.zeros(3, 16) @ x.transpose(1, 2), ["s0", "3", "s1"]),
    "linear of a transpose": (
        lambda x: F.linear(x.transpose(0, 1), torch.zeros(4, 16), torch.zeros(4)),
        ["s1", "s0", "4"],
    ),
    "transpose": (lambda x: x.transpose(0, 1).contiguous(), ["s1", "s0", "16"]),
    "mean": (lambda x: x.mean(), []),
    "split": (lambda x: x.split(8, 2)[1], ["s0", "s1", "8"]),
    "dropout": (lambda x: F.dropout(x, 0.5), ["s0", "s1", "16"]),
    "gather": (lambda x: x.gather(2, torch.zeros(2, 2, 2, dtype=torch.int64)), ["2", "2", "2"]),
    "expand": (lambda x: x.new_zeros(16).expand(x.size(0), 16), ["s0", "16"]),
    "factory": (lambda x: torch.zeros(x.size(1), 3), ["s1", "3"]),
    "arange": (lambda x: torch.arange(x.size(1)), ["s1"]),
}


@pytest.mark.parametrize("name", UNGUARDED)
def test_ops_without_guards(name, make):
    program, sizes = UNGUARDED[name]
    x = make(7, 5, 16, dynamic=(0, 1))
    with make.mode:
        assert _sizes(program(x))[0] == sizes
    assert make.guards == []


def test_images(make):
    x = make(7, 3, 9, 12, dynamic=(0, 2, 3))
    y = F.conv2d(x, torch.zeros(4, 3, 3, 3), padding=1, stride=2)
    assert _sizes(y)[0] == ["s0", "4", "FloorDiv(s1 + 1, 2)", "FloorDiv(s2 + 1, 2)"]
    assert _sizes(F.max_pool2d(x, 2))[0] == ["s0", "3", "FloorDiv(s1, 2)", "FloorDiv(s2, 2)"]
    F.batch_norm(x, torch.zeros(3), torch.ones(3), training=True)
    assert make.guards == []


def test_equal_sizes_are_guarded(make):
    make(7, 5) + make(7, 5, source="y")
    assert make.guards == ["x.size(0) == y.size(0)"]


def test_gradients_have_the_inputs_sizes(make):
    x = make(7, 5, 16, dynamic=(0, 1), grad=True)
    weight = torch.zeros(4, 16, requires_grad=True)
    y = F.layer_norm(F.gelu(F.linear(x, weight)), (4,)).softmax(-1).mean(1)
    (grad,) = torch.autograd.grad((y * y).sum(), [x])
    assert _sizes(grad) == _sizes(x)
    assert make.guards == []


def test_attention(make):
    q = make(2, 4, 9, 16, dynamic=(0, 2), grad=True)
    with make.mode:
        out = F.scaled_dot_product_attention(q, q, q, is_causal=True)
        (grad,) = torch.autograd.grad(out.sum(), [q])
    assert _sizes(out)[0] == _sizes(grad)[0] == ["s0", "4", "s1", "16"]


@pytest.mark.parametrize("mask", [None, "bool", "float"])
@pytest.mark.parametrize("causal", [False, True])
def test_attention_with_dropout(make, mask, causal):
    if mask and causal:
        return
    q = make(2, 4, 9, 16, dynamic=(0, 2), grad=True)
    with make.mode:
        bias = None if mask is None else torch.zeros(9, 9, dtype=torch.bool if mask == "bool" else torch.float32)
        keys = torch.zeros(2, 4, 9, 16) if mask else q
        keys = keys[:1].expand(q.size(0), 4, 9, 16) if mask else q
        out = (
            F.scaled_dot_product_attention(q[:, :, :9], keys, keys, bias, 0.1, causal)
            if mask
            else (F.scaled_dot_product_attention(q, q, q, None, 0.1, causal))
        )
        (grad,) = torch.autograd.grad(out.sum(), [q])
    assert str(out.shape[0]) == str(grad.shape[0]) == "s0"


def test_lstm_guards_its_sizes(make):
    x = make(7, 5, 8, grad=True)
    with make.mode:
        out, _ = torch.nn.LSTM(8, 4, batch_first=True)(x)
        (grad,) = torch.autograd.grad(out.sum(), [x])
    assert out.shape == (7, 5, 4) and grad.shape == x.shape
    assert make.guards == ["x.size(0) == 7"]


def test_missing_rule_guards_sizes_to_their_hints(make):
    x = make(3, 3)
    F.rrelu(x[:, :3], training=True)
    assert any("3" in guard for guard in make.guards)


def test_marked_dimensions(make):
    index = make(7, 2, dtype=torch.int64)
    out = F.embedding(index, torch.zeros(10, 4))
    assert _sizes(out)[0] == ["s0", "2", "4"]


def test_what_specialises_is_named(make):
    x = make(4, 4, dynamic=(0, 1))
    with make.mode:
        F.rrelu(x, training=True)
    by_size = {one.source: one for one in make.env.specializations()}
    assert {source: one.value for source, one in by_size.items()} == {"x.size(0)": 4, "x.size(1)": 4}
    assert by_size["x.size(0)"].operator == "aten.rrelu_with_noise"
    assert by_size["x.size(0)"].user_line.startswith("test_symbolic.py:")
    assert str(make.env.operator) == ""


def test_a_rule_runs_once_for_equal_symbolic_sizes(make, monkeypatch):
    runs = []
    op = torch.ops.aten.erfinv.default
    rule, facts = registry.rule_and_facts(op)
    monkeypatch.setitem(registry._KNOWN, op, (lambda x: runs.append(1) or rule(x), facts))
    x = make(7, 5, dynamic=(0,))
    with make.mode:
        first, again = torch.erfinv(x), torch.erfinv(x + 1)
        torch.erfinv(x[1:])
    assert len(runs) == 2
    assert _sizes(first) == _sizes(again) == _sizes(x)


def test_sizes_that_only_the_data_says_are_new_each_time(make, monkeypatch):
    op = torch.ops.aten.erfinv.default
    _, facts = registry.rule_and_facts(op)

    def rule(x):
        return TensorMeta((make.env.create_unbacked_int(0),), (1,), x.dtype, x.device)

    monkeypatch.setitem(registry._KNOWN, op, (rule, facts))
    x = make(7, 5, dynamic=(0,))
    with make.mode:
        first, again = torch.erfinv(x), torch.erfinv(x)
    assert _sizes(first) != _sizes(again)


def test_floats_of_sizes_are_no_constants(make):
    x = make(7, 5, dynamic=(0,))
    n = x.shape[0]
    with make.mode:
        torch.full((2,), n / (n - 1))
        torch.where(x > 0, x, n / (n - 1))
    assert make.guards == []


def test_a_bag_of_embeddings_and_its_gradient(make):
    index = make(5, 9, dynamic=(0, 1), dtype=torch.int64)
    weight = torch.zeros(3, 4, requires_grad=True)
    with make.mode:
        out = F.embedding_bag(index, weight)
        (grad,) = torch.autograd.grad(out.sum(), [weight])
    assert _sizes(out)[0] == ["s0", "4"] and grad.shape == (3, 4)
    assert make.guards == []


def test_another_fake_of_known_sizes_asks_its_numbers_nothing(make, monkeypatch):
    x = make(7, 5, dynamic=(0, 1))
    with make.mode:
        first = x.detach()
        asked = []
        for name in ("wrap_int", "mul", "eq", "guard_or_false"):
            before = getattr(SymNode, name)
            monkeypatch.setattr(SymNode, name, lambda *args, before=before: asked.append(before) or before(*args))
        again = x.detach()
    assert asked == []
    assert _sizes(again) == _sizes(first)


def test_the_storage_of_a_fake_with_symbolic_sizes_has_no_number_of_bytes(make):
    with pytest.raises(RuntimeError, match="known only when the program runs"):
        int(make(7, dynamic=(0,)).untyped_storage().nbytes())


def test_conditions_joined_again_are_the_same(make):
    few, many = (x.shape[0].node.gt(x.shape[0].node.wrap_int(9)) for x in (make(7), make(11, source="y")))
    assert few.sym_or(many).expr is few.sym_or(many).expr


def test_what_lies_in_order_is_known_without_questions(make, monkeypatch):
    x = make(7, 5, 3, dynamic=(0, 1))[1:]
    with make.mode:
        x.view(-1, 3)
        guards, asked = make.guards, []
        for name in ("bool_", "guard_bool", "guard_or_false", "guard_or_true"):
            before = getattr(SymNode, name)
            monkeypatch.setattr(SymNode, name, lambda *args, before=before: asked.append(before) or before(*args))
        assert x.is_contiguous() and x.contiguous() is x
        rows = x.reshape(-1, 3)
    assert asked == [] and make.guards == guards
    assert _sizes(rows) == (["s1*(s0 - 1)", "3"], ["3", "1"]) and rows.storage_key is x.storage_key


def test_what_does_not_lie_in_order_is_copied(make):
    x = make(7, 5, 3, dynamic=(0, 1)).transpose(0, 1)
    with make.mode:
        assert not x.is_contiguous()
        assert x.contiguous().storage_key is not x.storage_key is not x.reshape(-1, 3).storage_key
        assert x.is_contiguous(memory_format=torch.contiguous_format) is False
        with pytest.raises(TypeError):
            make(7, dynamic=(0,)).reshape(torch.int32)


def test_what_is_laid_out_anew_beneath_the_mode_checks_no_storage(make):
    x, y = make(7, 5, dynamic=(0, 1)), make(9, dynamic=(0,), source="y")
    with torch._C._DisableTorchDispatch():
        torch.ops.aten.as_strided_.default(x, tuple(reversed(x.shape)), tuple(reversed(x.stride())), 0)
        torch.ops.aten.as_strided_.default(y, (2, 3), (3, 1), 0)
    x.laid_out(x.detach().t())
    y.laid_out(make(2, 3, source="z"))
    assert _sizes(x) == (["s1", "s0"], ["1", "s1"]) and list(y.shape) == [2, 3]
    assert make.env.runtime_asserts == []


def test_metadata_is_what_torch_has(make):
    x = make(7, 5, 6, dynamic=(0, 1))
    for fake in (x, x.transpose(0, 1), x[1:], x.double(), x.mT):
        base = torch.Tensor
        with torch._C.DisableTorchFunctionSubclass():
            assert tuple(fake.shape) == tuple(base.shape.__get__(fake)) == tuple(base.size(fake)) == tuple(fake.size())
            assert tuple(fake.stride()) == tuple(base.stride(fake))
            assert fake.dtype is base.dtype.__get__(fake) and fake.device == base.device.__get__(fake)
        assert type(fake.shape) is torch.Size and fake.dim() == 3 == fake.ndim
        assert fake.size(-1) is not None and fake.size(dim=0) is not None and fake.stride(0) is not None
    with pytest.raises(IndexError, match="Dimension out of range"):
        x.size(3)


def test_a_size_that_was_settled_is_plain_in_what_is_made_since(make):
    x = make(7, 5, dynamic=(0, 1))
    assert bool(x.shape[0] == 7)
    for made in (x.t(), x.t().clone(), x.t() + 1):
        assert [type(length) for length in made.shape] == [torch.SymInt, int] and made.shape[1] == 7


def test_a_tensor_laid_out_in_place_tells_so(make):
    x = make(7, 5, dynamic=(0, 1))
    with make.mode:
        y = x + 1
        y.t_()
        z = torch.empty_like(y).unsqueeze_(0)
        (y * 2).squeeze_()
    assert _sizes(y)[0] == ["s1", "s0"] and _sizes(z)[0] == ["1", "s1", "s0"] and z.dim() == 3


class _Seen(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.ops = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.ops.append((func, str(args[1:]), str(kwargs)))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    ("swapped", "shape"),
    [((0, 1), (-1, 6)), ((0, 1), (-1,)), ((1, 2), (-1, 30)), ((0, 1), (5, -1, 2, 3)), ((0, 2), (6, -1))],
)
@pytest.mark.parametrize("grad", [False, True])
def test_a_reshape_found_before_takes_the_same_way(make, swapped, shape, grad):
    x = make(7, 5, 6, dynamic=(0,), grad=grad)
    y = x.transpose(*swapped)
    found = []
    for _ in range(2):
        with make.mode, _Seen() as seen:
            result = y.reshape(shape)
        found.append((seen.ops, _sizes(result), result.storage_key is x.storage_key, str(result.grad_fn)[:14]))
    assert found[0] == found[1] and make.mode.reshaped


def test_a_reshape_is_asked_anew_where_sizes_may_be_1(make):
    policy = [DimPolicy.OPEN, STATIC, STATIC]
    x = make.mode.from_tensor(torch.zeros(7, 5, 6), source="x", policy=policy).transpose(0, 1)
    with make.mode:
        x.reshape(-1, 6)
    assert not make.mode.reshaped


def test_masks_made_alike_pick_as_many():
    mode = FakeMode(ShapeEnv(), data_dependent=True)
    x, mask = mode.from_tensor(torch.zeros(4, 6)), mode.from_tensor(torch.zeros(4, dtype=torch.bool))

    def picked(mask):
        return str(x[mask].shape[0])

    with mode:
        assert picked(~mask) == picked(~mask) == picked(mask.bitwise_not()) != picked(mask)
        row = x[:, 0]
        assert picked((row > 1) & mask) == picked((row > 1) & mask) != picked((row > 2) & mask)
        assert picked(x > 1) == picked(x > 1) != picked(x >= 1)
        drawn = [torch.empty(4).bernoulli_() > 0 for _ in range(2)]
        assert picked(drawn[0]) != picked(drawn[1])


def test_masks_made_alike_of_what_was_written_to_meanwhile():
    mode = FakeMode(ShapeEnv(), data_dependent=True)
    x, mask = mode.from_tensor(torch.zeros(4, 6)), mode.from_tensor(torch.zeros(4, dtype=torch.bool))
    with mode:
        first, inverse = ~mask, ~mask
        counted = [str(x[first].shape[0])]
        mask[0] = True
        counted.append(str(x[~mask].shape[0]))
        inverse.zero_()
        counted.append(str(x[inverse].shape[0]))
        first.data.zero_()
        counted.append(str(x[first].shape[0]))
        assert len(set(counted)) == 4


def test_masks_of_what_nothing_was_written_to_are_not_alike():
    mode = FakeMode(ShapeEnv(), data_dependent=True)
    x = mode.from_tensor(torch.zeros(4, 6))
    with mode:
        masks = [torch.empty(4, dtype=torch.bool) for _ in range(2)] + [torch.empty_like(x[:, 0] > 0) for _ in range(2)]
        assert len({str(x[mask].shape[0]) for mask in masks}) == 4


def test_a_number_read_twice_from_one_place_is_one():
    mode = FakeMode(ShapeEnv(), data_dependent=True)
    x, other = (mode.from_tensor(torch.zeros(4, dtype=torch.int64)) for _ in range(2))
    with mode:
        first = [str(x[0].item()) for _ in range(2)]
        assert first[0] == first[1]
        told = [first[0], str(x[1].item()), str(other[0].item()), str(x[0].to(torch.int32).item())]
        x[0] = 3
        told.append(str(x[0].item()))
        x.view(2, 2).add_(1)
        told.append(str(x[0].item()))
        x.data.zero_()
        told.append(str(x[0].item()))
        assert len(set(told)) == len(told)


@pytest.mark.parametrize("batch_first", [False, True])
def test_rows_and_steps_of_packed_sequences_are_in_the_lengths(batch_first):
    rnn = torch.nn.utils.rnn
    mode = FakeMode(ShapeEnv(), data_dependent=True)
    x, lengths = mode.from_tensor(torch.zeros(4, 3, 5)), mode.from_tensor(torch.zeros(4 if batch_first else 3).long())
    with mode:
        packed = rnn.pack_padded_sequence(x, lengths, batch_first=batch_first)
        rows, steps = packed.data.shape[0], packed.batch_sizes.shape[0]
        assert str(rows) != str(steps) and packed.data.shape[1:] == (5,)
        padded, counts = rnn.pad_packed_sequence(packed, batch_first=batch_first)
        batch = packed.batch_sizes[0].item()
        of_steps, of_batch = padded.shape[batch_first], padded.shape[not batch_first]
        assert [str(of_steps), str(of_batch), str(counts.shape[0])] == [str(steps), str(batch), str(batch)]


@pytest.mark.parametrize(
    "lengths", [torch.zeros(3, dtype=torch.int32), torch.zeros(2).long(), torch.zeros(1, 3).long()]
)
def test_lengths_that_are_refused(lengths):
    mode = FakeMode(ShapeEnv(), data_dependent=True)
    x, given = mode.from_tensor(torch.zeros(4, 3, 5)), mode.from_tensor(lengths)
    with pytest.raises(RuntimeError) as eager:
        torch._VF._pack_padded_sequence(torch.zeros(4, 3, 5), lengths, False)
    with mode, pytest.raises(RuntimeError) as told:
        torch._VF._pack_padded_sequence(x, given, False)
    assert str(told.value).lower()[:60] == str(eager.value).lower()[:60]
