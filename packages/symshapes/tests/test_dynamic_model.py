"""A model under `FakeMode` with a dynamic batch: one set of guards for a range of sizes."""

import torch

from symshapes import DimMark, DimPolicy, FakeMode, ShapeEnv, constrain_range, expr_of


def test_mlp_forward_and_backward_leave_the_batch_free():
    model = torch.nn.Sequential(
        torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.LayerNorm(64), torch.nn.Dropout(0.1), torch.nn.Linear(64, 10)
    )
    env = ShapeEnv()
    mode = FakeMode(shape_env=env)
    static = DimPolicy.STATIC
    x = mode.from_tensor(torch.randn(8, 32), source="x", policy=[DimMark(DimPolicy.DYNAMIC, 2, 64), static])
    y = mode.from_tensor(torch.randint(10, (8,)), source="y", policy=[DimPolicy.DYNAMIC])
    parameters = {name: mode.from_tensor(value, source=name) for name, value in model.named_parameters()}
    with mode:
        logits = torch.func.functional_call(model, parameters, (x,))
        loss = torch.nn.functional.cross_entropy(logits, y)
        loss.backward()
    assert expr_of(logits.shape[0]) == expr_of(x.shape[0])
    assert parameters["0.weight"].grad.shape == (64, 32)
    code = env.produce_guard_code()
    namespace: dict = {}
    exec(code.source, namespace)
    assert all(namespace["check"](size, size) for size in range(2, 65))
    assert not namespace["check"](8, 9) and not namespace["check"](1, 1) and not namespace["check"](65, 65)


def test_a_view_records_what_it_needs():
    env = ShapeEnv()
    mode = FakeMode(shape_env=env)
    x = mode.from_tensor(torch.randn(8, 6), source="x", policy=[DimPolicy.DYNAMIC, DimPolicy.STATIC])
    constrain_range(x.shape[0], max=64)
    with mode:
        y = x.view(-1, 4)
    assert expr_of(y.shape[0] * 4) == 6 * expr_of(x.shape[0])
    assert env.produce_guard_code().code == "x.size(0) % 2 == 0 and 2 <= x.size(0) <= 64"
