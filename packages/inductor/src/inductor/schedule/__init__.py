"""The scheduler: a lowered program becomes kernels and extern calls in order, with a plan for memory.

Flows in: `Program`. Flows out: `Schedule`.
"""

from inductor.schedule.schedule import ExternStep, KernelStep, Schedule, Step, schedule

__all__ = ["ExternStep", "KernelStep", "Schedule", "Step", "schedule"]
