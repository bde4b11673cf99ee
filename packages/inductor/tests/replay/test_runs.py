"""Which runs of a graph are recorded, which replayed, and what is copied; by a recorder that keeps what it is told to run."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from inductor_recording import Counted, Kept

from inductor.replay import Replayed
from inductor.replay.forms import MOST_FORMS, MOST_RECORDINGS, REST, WORTH
from inductor.replay.twins import maker


def made(run: Callable[..., Sequence[Any]], *examples: Any) -> tuple[Replayed, Kept, Counted]:
    recorder, graph = Kept(), Counted(run)
    return Replayed(graph, recorder, lambda: None, examples), recorder, graph


def affine(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return (x * w + 1,)


def test_the_second_call_is_recorded_and_later_ones_replay() -> None:
    x, w = torch.randn(4), torch.randn(4)
    replayed, recorder, _ = made(affine, x, w)
    seen = []
    for _ in range(5):
        x.normal_()
        given: list[Any] = [x, w]
        seen.append((x * w + 1, replayed(given)[0]))
        assert not given
    assert (recorder.asides, recorder.recorded, recorder.replays) == (2, 1, 4)
    for expected, found in seen:  # earlier results stay what they were
        torch.testing.assert_close(found, expected)


def test_what_moves_is_copied() -> None:
    w = torch.randn(4)
    replayed, recorder, _ = made(affine, torch.randn(4), w)
    held = [torch.randn(4) for _ in range(6)]
    for x in held:
        torch.testing.assert_close(replayed([x, w])[0], x * w + 1)
    assert recorder.recorded == 1
    assert recorder.replays == 5


def test_what_moves_later_has_it_recorded_again_and_the_last_recording_bears_anything() -> None:
    x = torch.randn(4)
    weights = [torch.randn(4) for _ in range(12)]
    inputs = [torch.randn(4) for _ in range(12)]
    replayed, recorder, _ = made(affine, x, weights[0])
    for w in (weights[0], weights[0], *weights):
        torch.testing.assert_close(replayed([x, w])[0], x * w + 1)
    assert recorder.recorded == 2
    for given in inputs:
        torch.testing.assert_close(replayed([given, weights[3]])[0], given * weights[3] + 1)
    assert recorder.recorded == 3 < MOST_RECORDINGS


def test_inputs_that_are_written_to() -> None:
    def run(cache: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        cache.add_(x)
        return cache * 2, cache

    class Writes(Counted):
        written_results = frozenset({1})

    recorder, graph = Kept(), Writes(run)
    replayed = Replayed(graph, recorder, lambda: None, [torch.zeros(4), torch.zeros(4)])
    assert [*replayed.written_results] == [1]
    caches = [torch.zeros(4) for _ in range(3)]
    expected = [torch.zeros(4) for _ in range(3)]
    held = [torch.randn(4) for _ in range(12)]
    for at, x in enumerate(held):
        which = max(0, at - 9)
        doubled, given = replayed([caches[which], x])
        expected[which] += x
        assert given is caches[which]
        torch.testing.assert_close(given, expected[which])
        torch.testing.assert_close(doubled, expected[which] * 2)
    assert recorder.recorded == 3


def test_written_in_between() -> None:
    x, w = torch.randn(4), torch.randn(4)
    replayed, _, _ = made(affine, x, w)
    for _ in range(4):
        with torch.no_grad():
            w.add_(1)
        torch.testing.assert_close(replayed([x, w])[0], x * w + 1)


def test_a_recording_for_each_form_and_one_met_again_takes_the_place_of_the_oldest() -> None:
    replayed, recorder, graph = made(lambda x, n: (x * n, n), torch.empty(2), 3)
    x = torch.randn(2)

    def call(n: int | float) -> int:
        """How often the graph ran."""
        before = graph.calls
        doubled, number = replayed([x, n])
        assert (type(number), number) == (type(n), n)
        torch.testing.assert_close(doubled, x * n)
        return graph.calls - before

    for n in range(MOST_FORMS):
        for _ in range(3):
            call(n)
    assert recorder.recorded == MOST_FORMS
    for n in range(100, 200):  # each once: nothing of what is recorded makes room
        call(n)
        call(0)
    before = recorder.recorded
    assert before == MOST_FORMS
    call(99)
    call(99)
    assert call(99) and recorder.recorded == before + 1
    for n in (99, 0, *range(2, MOST_FORMS)):
        call(n)
    assert recorder.recorded == before + 1
    for _ in range(4):
        call(1)  # which made room, is met again, and makes 0 do so
    assert recorder.recorded == before + 2
    call(1.0)  # another kind of number than 1
    assert recorder.recorded == before + 2


def test_zeros_of_both_signs_and_nan_are_numbers_of_their_own() -> None:
    replayed, recorder, _ = made(lambda x, n: (x / n,), torch.empty(2), 0.5)
    x = torch.ones(2)
    for n in (0.0, -0.0, float("nan")):
        for _ in range(3):
            torch.testing.assert_close(replayed([x, n + 0.0 if n else n])[0], x / n, equal_nan=True)
    assert recorder.recorded == 3


def test_what_is_recorded_again_is_gone_before_and_inputs_stay_for_the_first_run() -> None:
    results: list[weakref.ref[torch.Tensor]] = []

    class Checked(Kept):
        def aside(self, run: Callable[[], Any]) -> Any:
            made = super().aside(run)
            assert first() is not None
            return made

        def record(self, run: Callable[[], Any], apart: bool) -> tuple[Callable[[], None], Any]:
            assert not any(result() is not None for result in results)
            replay, made = super().record(run, apart)
            results.extend(map(weakref.ref, made))
            return replay, made

    recorder, graph = Checked(), Counted(affine)
    replayed = Replayed(graph, recorder, lambda: None, [torch.empty(4), torch.empty(4)])
    inputs = [torch.randn(4), w := torch.randn(4)]
    first = weakref.ref(inputs[0])
    replayed(inputs)
    assert first() is None
    held = [torch.randn(4) for _ in range(3)]
    first = weakref.ref(held[0])
    for x, y in ((held[0], w), (held[1], w), (held[2], held[0])):
        torch.testing.assert_close(replayed([x, y])[0], x * y + 1)
    assert recorder.recorded == len(results) == 2


def test_what_cannot_be_recorded_runs_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    x, w = torch.randn(4), torch.randn(4)
    replayed, recorder, graph = made(affine, x, w)
    recorder.fails = True
    for _ in range(4):
        torch.testing.assert_close(replayed([x, w])[0], x * w + 1)
    assert graph.calls == 4
    assert caplog.text.count("not permitted") == 1


@pytest.mark.parametrize(
    "run",
    [lambda x, w: (x.view(2, 2),), lambda x, w: ((y := x + w), y.view(2, 2))],
    ids=["with an input", "with each other"],
)
def test_results_that_share_memory(run: Callable[..., Any], caplog: pytest.LogCaptureFixture) -> None:
    x, w = torch.randn(4), torch.randn(4)
    replayed, recorder, _ = made(run, x, w)
    for _ in range(3):
        for found, expected in zip(replayed([x, w]), run(x, w), strict=True):
            torch.testing.assert_close(found, expected)
    assert recorder.replays == 0
    assert "share memory" in caplog.text


def test_layouts() -> None:
    x = torch.randn(3, 1).expand(3, 4)
    strided = torch.randn(4, 6)[:, ::2]

    def run(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, ...]:
        fresh = torch.empty_strided((3, 4), (8, 1))
        return fresh.copy_(a + 1), (b + 1).t(), (a[:, :1] * 2).expand(3, 5), torch.empty(0, 3)

    replayed, recorder, _ = made(run, x, strided)
    for _ in range(4):
        a, b = torch.randn(3, 1).expand(3, 4), torch.randn(4, 6)[:, ::2]
        for found, expected in zip(replayed([a, b]), run(a, b), strict=True):
            torch.testing.assert_close(found, expected)
            assert found.stride() == expected.stride()
    assert recorder.recorded == 1


def test_in_and_out_of_inference_mode() -> None:
    w = torch.randn(4)
    replayed, recorder, _ = made(affine, torch.randn(4), w)
    for at in range(6):
        with torch.inference_mode(at % 2 == 1):
            x = torch.randn(4)
            found = replayed([x, w])[0]
            torch.testing.assert_close(found, x * w + 1)
            assert found.is_inference() == (at % 2 == 1)
    assert recorder.recorded == 1


def test_while_the_program_records() -> None:
    x, w = torch.randn(4), torch.randn(4)
    replayed, recorder, graph = made(affine, x, w)
    recorder.recording = True
    for _ in range(3):
        replayed([x, w])
    assert graph.calls == 3
    assert recorder.recorded == 0


def test_what_an_earlier_call_met_is_told_once_and_nothing_runs() -> None:
    x, w = torch.randn(4), torch.randn(4)
    met: list[Exception] = []

    def settle() -> None:
        if met:
            raise met.pop()

    recorder = Kept()
    replayed = Replayed(Counted(affine), recorder, settle, (x, w))
    for _ in range(3):
        replayed([x, w])
    met.append(IndexError("index out of range in self"))
    replays = recorder.replays
    with pytest.raises(IndexError):
        replayed([x, w])
    assert recorder.replays == replays
    torch.testing.assert_close(replayed([x, w])[0], x * w + 1)


def test_a_call_that_raises_leaves_nothing_behind() -> None:
    x, w = torch.randn(4), torch.randn(4)
    fail = [True]

    def run(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
        if fail[0]:
            raise IndexError("index out of range in self")
        return affine(x, w)

    replayed, recorder, _ = made(run, x, w)
    with pytest.raises(IndexError):
        replayed([x, w])
    fail[0] = False
    for _ in range(3):
        torch.testing.assert_close(replayed([x, w])[0], x * w + 1)
    assert recorder.asides == 3  # what raised, the first run, and the copies of the recording
    assert recorder.recorded == 1


@pytest.mark.parametrize("stray", [False, True])
def test_twins_have_the_same_strides(stray: bool) -> None:
    kept = [
        torch.randn(3, 4),
        torch.randn(3, 4).t(),
        torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
        torch.empty(0, 3),
        torch.randn(()),
        torch.empty_strided((1, 3), (7, 1)),
        torch.randn(2, 3, 4).permute(2, 0, 1),
    ]
    if stray:
        kept += [torch.randn(4, 6)[:, ::2], torch.randn(3, 1).expand(3, 4)]
    for one, other in zip(maker(kept)(), kept, strict=True):
        assert (one.shape, one.stride(), one.dtype) == (other.shape, other.stride(), other.dtype)
        assert not one.numel() or one.data_ptr() != other.data_ptr()


def test_what_could_not_be_recorded_is_tried_again_after_a_rest(caplog: pytest.LogCaptureFixture) -> None:
    x, w = torch.randn(4), torch.randn(4)
    replayed, recorder, graph = made(affine, x, w)
    recorder.fails = True
    for _ in range(2 * REST):
        torch.testing.assert_close(replayed([x, w])[0], x * w + 1)
    assert graph.calls == 2 * REST and caplog.text.count("not permitted") == 1
    recorder.fails = False
    for _ in range(REST * REST):
        torch.testing.assert_close(replayed([x, w])[0], x * w + 1)
    assert recorder.recorded == 1 and recorder.replays > 1


def test_recordings_that_were_worth_it_do_not_count() -> None:
    def run(cache: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        cache.add_(x)
        return cache * 2, cache

    class Writes(Counted):
        written_results = frozenset({1})

    recorder, graph = Kept(), Writes(run)
    replayed = Replayed(graph, recorder, lambda: None, [torch.zeros(4), torch.zeros(4)])
    for text in range(3 * MOST_RECORDINGS):
        cache, expected = torch.zeros(4), torch.zeros(4)
        for _ in range(WORTH + 2):
            x = torch.randn(4)
            expected += x
            torch.testing.assert_close(replayed([cache, x])[0], expected * 2)
        assert recorder.recorded == text + 1
    caches = [torch.zeros(4) for _ in range(3 * MOST_RECORDINGS)]
    before = recorder.recorded
    for cache in caches:  # each once
        x = torch.randn(4)
        torch.testing.assert_close(replayed([cache, x])[0], x * 2)
    assert recorder.recorded <= before + MOST_RECORDINGS


def test_inputs_that_share_memory() -> None:
    def run(cache: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        cache.add_(x)
        return cache * y, cache

    class Writes(Counted):
        written_results = frozenset({1})

    recorder, graph = Kept(), Writes(run)
    replayed = Replayed(graph, recorder, lambda: None, [torch.zeros(4)] * 3, apart=(0,))
    assert replayed.tells_shared
    both = torch.zeros(8)
    cache, x = both[:4], torch.randn(4)
    y = torch.randn(4)
    for at in range(8):
        before = cache.clone()
        for inputs in ([cache, cache, y], [cache, x, both[2:6]], [cache, both[3:7], torch.randn(4)]):
            assert replayed(list(inputs)) is None
            assert torch.equal(cache, before)
        if at > 2:
            x = torch.randn(4)
        found = replayed([cache, x, y])
        assert found is not None
        torch.testing.assert_close(found[0], (before + x) * y)
        torch.testing.assert_close(cache, before + x)
    assert recorder.replays > 4


def test_written_inputs_side_by_side_are_recorded() -> None:
    def run(first: torch.Tensor, second: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        first.add_(x)
        second.sub_(x)
        return first * second, first, second

    class Writes(Counted):
        written_results = frozenset({1, 2})

    recorder, graph = Kept(), Writes(run)
    replayed = Replayed(graph, recorder, lambda: None, [torch.zeros(4)] * 3, apart=(0, 1))
    flat, x = torch.zeros(12), torch.randn(4)
    expected = torch.zeros(12)
    for at in range(6):
        if at == 3:
            x = flat[8:]  # moved next to them
        found = replayed([flat[:4], flat[4:8], x])
        run(expected[:4], expected[4:8], x)
        assert found is not None
        torch.testing.assert_close(flat[:8], expected[:8])
        torch.testing.assert_close(found[0], expected[:4] * expected[4:8])
    assert recorder.replays > 3
    assert replayed([flat[:4], flat[3:7], x]) is None


def test_results_that_are_too_large(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr("inductor.replay.results.MOST_RESULTS", 1 << 20)
    x = torch.ones(1 << 9, 1 << 9)
    replayed, recorder, _ = made(lambda x: (x + 1, x[0] + 1), x)
    for _ in range(3):
        replayed([x])
    assert recorder.replays == 0 and "1 MiB of results" in caplog.text
    replayed, recorder, _ = made(lambda x: (x[1:] + 1,), x)
    for _ in range(3):
        replayed([x])
    assert recorder.replays == 2
