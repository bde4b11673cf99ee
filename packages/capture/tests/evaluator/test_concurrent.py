"""First calls in many threads at once: each variant is captured once, every result is right."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

import capture

THREADS, SHAPES = 24, (3, 4, 5)


def step(x):
    return torch.relu(x * 2 - 1).sum(-1)


@pytest.mark.parametrize("fullgraph", [False, True])
def test_first_calls_in_many_threads(fullgraph):
    made = []

    def backend(module, inputs):
        made.append(threading.get_ident())
        return module.forward

    def function(x):
        return step(x) + 1

    compiled = capture.compile(function, backend, dynamic=False, fullgraph=fullgraph)
    start = threading.Barrier(THREADS)

    def call(i):
        x = torch.linspace(0, 1, 2 * SHAPES[i % 3]).reshape(2, -1)
        start.wait(60)
        return [torch.equal(compiled(x), function(x)) for _ in range(5)]

    with ThreadPoolExecutor(THREADS) as pool:
        assert all(all(each) for each in pool.map(call, range(THREADS)))
    for size in SHAPES:
        compiled(torch.ones(2, size))
    assert len(made) == 3


def test_a_backend_that_calls_the_function_in_another_thread():
    """While it is captured: the other thread's call must not wait for the capture that waits for it."""

    def backend(module, inputs):
        thread = threading.Thread(target=lambda: seen.append(compiled(torch.ones(2))))
        thread.start()
        thread.join(60)
        return module.forward

    def function(x):
        return x + 1

    seen = []
    compiled = capture.compile(function, backend)
    assert torch.equal(compiled(torch.zeros(2)), torch.ones(2))
    assert torch.equal(seen[0], torch.full((2,), 2.0))
