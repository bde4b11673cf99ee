"""Kernels run on the right one of several devices: the wrapper's head, and statements within another device.

Flows in: the devices of a schedule's kernels, with their traits. Flows out: lines of the wrapper's text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch

from inductor.traits import TraitsOf


class DeviceGuards:
    """The devices that a wrapper's kernels are launched on.

    Args:
        bind: takes a name and an expression over `torch`, which the module is to hold by that name; gives the name it got.
    """

    def __init__(self, devices: Iterable[torch.device], traits: TraitsOf, bind: Callable[[str, str], str]) -> None:
        self.bind = bind
        self.modules: dict[str, str] = {}
        """By device type, where one of several has to be current."""
        self.currents: dict[str, str] = {}
        """By device type, what gives the current one's index."""
        self.used: dict[str, set[int]] = {}
        self.switches: dict[str, str] = {}
        for device in dict.fromkeys(devices):
            module = traits(device).module
            if module is not None and device.index is not None:
                self.modules[device.type] = module
                self.currents[device.type] = traits(device).current or f"{module}.current_device"
                self.used.setdefault(device.type, set()).add(device.index)

    def head(self) -> list[str]:
        """The first lines of `call`: kernels launch on the current device, which need not be the one their tensors are on."""
        lines: list[str] = []
        for kind, used in self.used.items():
            if len(used) == 1:
                (index,) = used
                current = self.bind("_current_device", self.currents[kind])
                lines += [
                    f"if {current}() != {index}:",
                    f"    with {self._switch(kind)}({index}):",
                    "        return _itself()(args)",
                ]
        return lines

    def within(self, device: torch.device, statement: str) -> str:
        """A statement run on one of several devices of a type; a single one is current anyway."""
        if len(self.used.get(device.type, ())) <= 1:
            return statement
        return f"with {self._switch(device.type)}({device.index}): {statement}"

    def _switch(self, kind: str) -> str:
        if kind not in self.switches:
            self.switches[kind] = self.bind("_device", f"{self.modules[kind]}.device")
        return self.switches[kind]


def without_head(lines: list[str]) -> str:
    """Take `DeviceGuards.head`'s lines off the lines of `call`; what has to hold for the rest to run as it is."""
    needed = []
    while lines[0].startswith("if "):
        needed.append(f"not ({lines[0].removeprefix('if ').removesuffix(':')})")
        del lines[:3]
    return " and ".join(needed)
