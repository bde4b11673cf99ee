"""The public functions: compiled modules, guards and recompiles, reports, fallbacks, ``disable``."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch

import capture


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Dropout(0.5))
        self.head = torch.nn.Linear(4, 2)

    def forward(self, x: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
        return self.head(self.body(x)) * scale


def test_compiled_module_trains() -> None:
    torch.manual_seed(0)
    eager, original = Net(), Net()
    original.load_state_dict(eager.state_dict())
    compiled = capture.compile(original)
    assert isinstance(compiled, torch.nn.Module)
    assert list(compiled.state_dict()) == list(eager.state_dict())
    assert compiled.head is original.head
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (eager, compiled)]
    x = torch.randn(5, 3)
    for _ in range(3):
        losses = []
        for module, optimizer in zip((eager, compiled), optimizers, strict=True):
            torch.manual_seed(1)
            optimizer.zero_grad()
            loss = module(x).square().sum()
            loss.backward()
            optimizer.step()
            losses.append(loss)
        assert torch.equal(losses[0], losses[1])
    compiled.eval()
    assert not original.training
    eager.eval()
    assert torch.equal(compiled(x), eager(x))
    assert compiled.session.report.break_count == 0


def test_guards_tell_calls_apart() -> None:
    def fn(x: torch.Tensor, n: int, flag: bool = False) -> torch.Tensor:
        return x * n if flag else x + n

    compiled = capture.compile(fn)
    for x in (torch.ones(2), torch.ones(2, 3), torch.ones(2, dtype=torch.int64), torch.ones(2, requires_grad=True)):
        for n in (1, 2, True, 2.0):
            for flag in (False, True):
                expected, got = fn(x, n, flag), compiled(x, n, flag=flag)
                assert torch.equal(expected, got)
                assert expected.dtype == got.dtype
                assert expected.requires_grad == got.requires_grad


def test_module_changes_are_noticed() -> None:
    module = Net().eval()
    compiled = capture.compile(module)
    x = torch.randn(2, 3)
    assert torch.equal(compiled(x), module(x))
    module.head = torch.nn.Linear(4, 6)
    assert torch.equal(compiled(x), module(x))
    module.body[1] = torch.nn.Tanh()
    assert torch.equal(compiled(x), module(x))
    handle = module.head.register_forward_hook(lambda m, args, out: out + 1)
    assert torch.equal(compiled(x), module(x))
    handle.remove()
    assert torch.equal(compiled(x), module(x))
    module.head.forward = lambda y: y[:, :2] * 7  # type: ignore[method-assign]
    assert torch.equal(compiled(x), module(x))


def test_forward_hooks_and_pre_hooks() -> None:
    module = Net().eval()
    module.head.register_forward_pre_hook(lambda m, args: (args[0] * 2,))
    module.head.register_forward_hook(lambda m, args, out: out - 1)
    compiled = capture.compile(module, fullgraph=True)
    x = torch.randn(2, 3)
    assert torch.equal(compiled(x), module(x))


FACTOR = 2


def test_global_is_guarded() -> None:
    global FACTOR

    def fn(x: torch.Tensor) -> torch.Tensor:
        return x * FACTOR

    compiled = capture.compile(fn)
    assert torch.equal(compiled(torch.ones(1)), torch.tensor([2.0]))
    FACTOR = 5
    try:
        assert torch.equal(compiled(torch.ones(1)), torch.tensor([5.0]))
    finally:
        FACTOR = 2


def test_patched_method_is_noticed() -> None:
    class Scale:
        def apply(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2

    def fn(x: torch.Tensor, s: Any) -> torch.Tensor:
        return s.apply(x)

    compiled = capture.compile(fn)
    s = Scale()
    assert compiled(torch.ones(1), s).item() == 2
    Scale.apply = lambda self, x: x * 3  # type: ignore[method-assign]
    assert compiled(torch.ones(1), s).item() == 3
    s.apply = lambda x: x * 4  # type: ignore[method-assign]
    assert compiled(torch.ones(1), s).item() == 4


def test_fullgraph_names_reason_and_line() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        if y.sum() > 0:
            return y
        return y[:1]

    with pytest.raises(capture.GraphBreakError, match="branch on a tensor's value") as caught:
        capture.compile(fn, fullgraph=True)(torch.ones(2))
    assert "test_api.py" in caught.value.user_line
    assert caught.value.user_line.endswith("in fn")


def test_backend_sees_placeholders_and_fakes() -> None:
    seen: list[Any] = []

    def backend(module: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        seen.append((module, inputs))
        return module.forward

    module = Net().eval()
    x = torch.randn(2, 3)
    assert torch.equal(capture.compile(module, backend)(x), module(x))
    ((graph, inputs),) = seen
    placeholders = [n for n in graph.graph.nodes if n.op == "placeholder"]
    assert [tuple(i.shape) for i in inputs] == [(2, 3), (4, 3), (4,), (2, 4), (2,)]
    assert [n.meta["val"] for n in placeholders] == inputs
    for node in graph.graph.nodes:
        if node.op.startswith("call"):
            assert isinstance(node.meta["val"], torch.Tensor)
            assert "test_api.py" in node.meta["source"]
    assert all(n.op in ("placeholder", "call_function", "call_method", "output") for n in graph.graph.nodes)


def test_trace_prints(capsys: pytest.CaptureFixture[str]) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        compile("0", "", "eval")
        return y.cos()

    trace = capture.trace(fn, torch.ones(2))
    text = capsys.readouterr().out
    assert trace.graph_count == 2
    assert trace.break_count == 1
    assert "open" in trace.breaks[0].reason
    for part in ("sin", "cos", "x is Tensor", "test_api.py"):
        assert part in text


def test_explain_lists_recompiles() -> None:
    def fn(x: torch.Tensor, n: int) -> torch.Tensor:
        return x + n

    compiled = capture.compile(fn)
    compiled(torch.ones(2), 1)
    compiled(torch.ones(2), 2)
    assert any("n == 1" in r for r in compiled.session.report.recompiles)


def test_disable() -> None:
    @capture.disable
    def inner(x: torch.Tensor) -> torch.Tensor:
        return x.sin()

    def fn(x: torch.Tensor) -> torch.Tensor:
        return inner(x + 1) * 2

    graphs: list[str] = []

    def backend(module: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        graphs.append(module.code)
        return module.forward

    x = torch.ones(2)
    assert torch.equal(capture.compile(fn, backend)(x), fn(x))
    assert not any("sin" in g for g in graphs)
    assert len(graphs) == 2


def test_failure_falls_back_with_one_warning() -> None:
    def broken(module: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        raise RuntimeError("no compiler")

    def fn(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    capture.config.on_error = "fallback"
    compiled = capture.compile(fn, broken)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 2.0))
        assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 2.0))
    assert len(caught) == 1
    assert "no compiler" in str(caught[0].message)
    assert "test_api.py" in str(caught[0].message)
    capture.config.on_error = "raise"
    with pytest.raises(capture.InternalError, match="no compiler"):
        capture.compile(fn, broken)(torch.ones(2))


def test_user_exception_keeps_its_traceback() -> None:
    def inner(y: torch.Tensor) -> torch.Tensor:
        raise KeyError("mine")

    def fn(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        return inner(y)

    with pytest.raises(KeyError, match="mine") as caught:
        capture.compile(fn)(torch.ones(2))
    names = [entry.name for entry in caught.traceback]
    assert names[-2:] == ["fn", "inner"]
    lines = [entry.lineno + 1 for entry in caught.traceback][-2:]
    assert lines == [fn.__code__.co_firstlineno + 2, inner.__code__.co_firstlineno + 1]


def test_methods_and_recursion() -> None:
    class Model:
        def __init__(self) -> None:
            self.depth = 0

        @capture.compile
        def run(self, x: torch.Tensor) -> torch.Tensor:
            self.depth += 1
            return x * self.depth

    m = Model()
    assert m.run(torch.ones(1)).item() == 1
    assert m.run(torch.ones(1)).item() == 2

    def rec(x: torch.Tensor, n: int) -> torch.Tensor:
        if n == 0:
            return x
        float(x.sum())
        return rec(x + 1, n - 1)

    assert capture.compile(rec)(torch.zeros(1), 5).item() == 5


def test_long_loop_with_breaks_does_not_nest() -> None:
    def fn(x: torch.Tensor, n: int) -> torch.Tensor:
        for _ in range(n):
            x = x + 1
            float(x.sum())
        return x

    assert capture.compile(fn)(torch.zeros(1), 3000).item() == 3000


def test_generator_function_runs_eagerly() -> None:
    def gen(x: torch.Tensor) -> Any:
        for i in range(3):
            yield x + i

    def fn(x: torch.Tensor) -> Any:
        return [y * 2 for y in gen(x)]

    assert [y.item() for y in capture.compile(fn)(torch.zeros(1))] == [0, 2, 4]
    assert [y.item() for y in capture.compile(gen)(torch.zeros(1))] == [0, 1, 2]


def test_inference_of_grad_mode() -> None:
    module = Net().eval()
    compiled = capture.compile(module)
    x = torch.randn(2, 3)
    assert compiled(x).requires_grad
    with torch.no_grad():
        assert not compiled(x).requires_grad
    with torch.inference_mode():
        assert torch.equal(compiled(x), module(x))
    assert compiled(x).requires_grad


def test_every_line_of_a_traceback_is_known() -> None:
    scale = torch.tensor(2.0)

    def failing(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
        def run(*args: torch.Tensor) -> Any:
            raise ValueError("from the compiled graph")

        return run

    def fn(x: torch.Tensor) -> torch.Tensor:
        return x * scale

    with pytest.raises(ValueError, match="from the compiled graph") as found:
        capture.compile(fn, failing)(torch.ones(2))
    assert all(entry._rawentry.tb_lineno is not None for entry in found.traceback)


def test_compiled_inside_compiled() -> None:
    inner_module = Net().eval()
    inner = capture.compile(inner_module)

    @capture.compile
    def helper(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    def fn(x: torch.Tensor) -> torch.Tensor:
        return inner(helper(x)) + 1

    compiled = capture.compile(fn, fullgraph=True)
    x = torch.randn(2, 3)
    assert torch.equal(compiled(x), inner_module(x * 2) + 1)


def test_disabled_function_is_named_as_the_reason() -> None:
    @capture.disable
    def inner(x: torch.Tensor) -> torch.Tensor:
        return x.sin()

    def fn(x: torch.Tensor) -> torch.Tensor:
        return inner(x + 1)

    with pytest.raises(capture.GraphBreakError, match=r"capture\.disable"):
        capture.compile(fn, fullgraph=True)(torch.ones(2))


def test_compiled_module_that_writes_to_itself_within_compiled() -> None:
    class Sized(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rows = 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if self.rows != x.shape[0]:
                self.rows, self.scale = x.shape[0], torch.full((x.shape[0], 1), 2.0)
            return x * self.scale

    module = Sized()
    inner = capture.compile(module)

    def fn(x: torch.Tensor) -> Any:
        return inner(x) + 1, inner.rows, module.rows

    outer = capture.compile(fn, fullgraph=True)
    for n in (3, 3, 2):
        found, *rows = outer(torch.ones(n, 2))
        assert torch.equal(found, torch.full((n, 2), 3.0)) and rows == [n, n] and module.rows == n
    assert not outer.session.report.skipped


def test_compiled_module_is_freed() -> None:
    import gc
    import weakref

    module = Net()
    compiled = capture.compile(module)
    compiled(torch.randn(2, 3))
    alive = weakref.ref(module)
    del module, compiled
    gc.collect()
    assert alive() is None


def test_compiled_modules_of_one_class_share_nothing_that_goes_with_one_of_them() -> None:
    import gc

    compiled: list[Any] = []

    def drop_the_first() -> None:
        if len(compiled) > 1:
            del compiled[0]
            gc.collect()

    class Broken(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            capture.disable(drop_the_first)()
            return x + 1

    for _ in range(3):
        compiled.append(capture.compile(Broken()))
        torch.testing.assert_close(compiled[-1](torch.ones(2)), torch.full((2,), 2.0))
        assert not compiled[-1].session.report.skipped


def test_a_dict_that_overrides_its_subscript_is_read_past_it() -> None:
    class Instances(dict[str, Any]):
        def __getitem__(self, key: str) -> Any:
            made_by, given = super().__getitem__(key)
            compile("0", "", "eval")
            return made_by(*given)

    table = Instances(two=(complex, (2.0,)), copied=(list, ((1, 2),)))

    def fn(x: torch.Tensor, name: str) -> Any:
        return table[name], x + 1

    compiled = capture.compile(fn)
    for name in ("two", "copied", "two"):
        x = torch.ones(2)
        found, y = compiled(x, name)
        assert found == fn(x, name)[0]
        torch.testing.assert_close(y, x + 1)


def test_resume_functions_go_with_the_function_they_are_of() -> None:
    import gc

    from capture import resume

    def round() -> int:
        module = torch.nn.Sequential(torch.nn.ReLU())
        module.register_forward_hook(lambda *_: compile("0", "", "eval"))
        capture.compile(module)(torch.ones(2))
        del module
        gc.collect()
        return len(resume._origins) + len(resume._functions)

    before = round()
    assert round() == before


def test_explain_names_every_frame_that_was_skipped_or_broken_and_why() -> None:
    def generator(x: torch.Tensor) -> Any:
        compile("0", "", "eval")
        yield x + 1

    def reads_locals(x: torch.Tensor) -> torch.Tensor:
        return sum(v.sum() for v in locals().values())  # type: ignore[return-value]

    def fn(x: torch.Tensor) -> torch.Tensor:
        for _ in range(3):
            compile("0", "", "eval")
        for y in generator(x):
            x = x + y
        return x + reads_locals(x)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = capture.explain(fn, torch.ones(2))
    text = str(found)
    assert "generator: it is a generator, which runs in the interpreter" in text
    assert "reads_locals: it looks at its own local variables" in text
    listed = text[text.index("breaks:") : text.index("left to the interpreter:")].splitlines()
    assert len(set(listed)) == len(listed)  # what comes again is counted
    assert [w.category for w in caught] == [capture.CaptureWarning]
    assert "reads_locals" in str(caught[0].message)


def test_the_recompile_limit_warns_once_with_the_guard_and_its_value() -> None:
    def fn(x: torch.Tensor, name: str) -> torch.Tensor:
        return x + len(name)

    compiled = capture.compile(fn)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for n in range(capture.config.recompile_limit + 5):
            assert torch.equal(compiled(torch.ones(2), "a" * n), torch.ones(2) + n)
    (warning,) = caught
    assert warning.filename == __file__
    assert f"name == {'a' * 15!r}, now {'a' * 16!r}  # test_api.py" in str(warning.message)
