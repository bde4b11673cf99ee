"""The collector around imports: what they make is old, and a program's frozen objects stay frozen."""

import subprocess
import sys
import textwrap


def _run(text: str) -> str:
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(text)], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_no_collection_walks_over_what_an_import_made():
    assert (
        _run(
            """
        import gc, torch
        seen = []
        gc.callbacks.append(lambda phase, _: phase == "start" and seen.append(gc.get_count()[0]))
        before = gc.get_threshold()
        import symshapes
        assert gc.get_threshold() == before and gc.isenabled()
        kept = [[] for _ in range(2 * before[0])]  # one is due
        young = {id(each) for each in gc.get_objects(generation=0)} | {id(each) for each in gc.get_objects(generation=1)}
        print(len(seen) > 0, id(vars(symshapes)) in young, gc.get_freeze_count() < 1000)
        """
        )
        == "True False True"
    )


def test_what_a_program_froze_stays_frozen():
    assert (
        _run(
            """
        import gc, torch
        gc.freeze()
        frozen = gc.get_freeze_count()
        import symshapes
        print(frozen > 1000 and abs(gc.get_freeze_count() - frozen) < 100)
        """
        )
        == "True"
    )


def test_a_collector_that_is_off_stays_off():
    assert (
        _run(
            """
        import gc, torch
        gc.disable()
        import symshapes
        print(gc.isenabled())
        """
        )
        == "False"
    )
