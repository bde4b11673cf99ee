"""What a capture has asked of a class, a table or a graph is answered by what it found, unless the frame has changed that meanwhile."""

import torch

import capture


def test_attributes_are_found_where_the_program_puts_them_meanwhile():
    class Held:
        pass

    class Holder(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(2, 2)
            self.held = Held()

        def forward(self, x):
            found = [hasattr(self.held, "extra"), hasattr(self, "more")]
            self.held.extra = 3
            self.more = torch.nn.Parameter(x.detach() * 2)
            found += [self.held.extra, hasattr(self, "more")]
            x = self.linear(x) + self.more
            del self.held.extra
            del self.more
            return x, [*found, hasattr(self.held, "extra"), hasattr(self, "more")]

    module, x = Holder(), torch.randn(2, 2)
    compiled = capture.compile(module)
    for _ in range(2):
        expected, found = module(x), compiled(x)
        assert torch.equal(expected[0], found[0])
        assert expected[1] == found[1]


def test_a_class_that_gains_a_name_meanwhile_is_asked_again():
    def fn(x):
        class Made:
            def __init__(self):
                self.own = 1

        made = Made()
        before = getattr(made, "later", 5)
        own = made.own
        Made.later = 7
        Made.own = property(lambda self: 11)
        return x + before + own + made.later + made.own

    x = torch.randn(2)
    assert torch.equal(capture.compile(fn)(x), fn(x))


def test_a_module_whose_tables_the_frame_replaces():
    class Swapped(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(2))
            self.register_buffer("scale", torch.full((2,), 3.0))

        def forward(self, x):
            x = x * self.weight * self.scale
            before = self.__dict__["_buffers"]
            self.__dict__["_buffers"] = {"scale": x}
            x = x + self.scale
            self.__dict__["_buffers"] = before
            return x + self.scale

    module, x = Swapped(), torch.randn(2)
    compiled = capture.compile(module)
    for _ in range(2):
        assert torch.equal(compiled(x), module(x))
        assert torch.equal(module.scale, torch.full((2,), 3.0))


def test_hooks_that_come_within_the_frame_run():
    def fn(module, x):
        x = module(x)
        handle = module.register_forward_hook(lambda module, args, result: result + 1)
        x = module(x)
        handle.remove()
        return module(x)

    module, x = torch.nn.Linear(2, 2), torch.randn(2, 2)
    compiled = capture.compile(fn)
    for _ in range(2):
        assert torch.equal(compiled(module, x), fn(module, x))


def test_names_of_calls_are_those_of_the_graph():
    def fn(x):
        relu_1 = torch.relu(x)
        return torch.relu(relu_1).add(1).add(x) + torch.relu_(x.clone())

    graph = torch.fx.Graph()
    calls = capture.explain(fn, torch.randn(2)).graphs[0].module.graph.nodes
    given = {}
    for node in calls:
        if node.op == "output":
            continue
        if node.op == "placeholder":
            given[node] = graph.placeholder(node.target)
        else:
            args = torch.fx.node.map_arg(node.args, given.get)
            given[node] = graph.create_node(node.op, node.target, args, dict(node.kwargs))
    assert [node.name for node in given] == [node.name for node in given.values()]
