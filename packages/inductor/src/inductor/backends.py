"""Which `DeviceBackend` serves a device type. Nothing else asks what is installed.

In this order: what a compile was told (`Options.backends`), what the program registered (`register_backend`), what the
environment says (`INDUCTOR_DEVICE_BACKENDS`), the only one that is installed. Backends are installed as entry points of the group
`inductor.device_backends`, named after torch's device type; of several for one type none is taken unless it was named.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import field
from importlib.metadata import EntryPoint

import torch

from inductor.device import DeviceBackend
from inductor.distributions import distributions_saying, normal
from inductor.traits import DeviceTraits
from symshapes import dataclass, import_whole

GROUP = "inductor.device_backends"
VARIABLE = "INDUCTOR_DEVICE_BACKENDS"

BackendOf = Callable[[torch.device], DeviceBackend]

_registered: dict[str, DeviceBackend] = {}
_loaded: dict[tuple[str, str], DeviceBackend] = {}
"""By device type and distribution."""
_only: dict[str, DeviceBackend] = {}
"""By device type, what is taken where nothing else is said: looked up once a process."""


class NoBackend(LookupError):
    """No backend for a device type is installed."""


def register_backend(backend: DeviceBackend) -> None:
    """Use `backend` for its device type from now on, before any installed one."""
    _registered[backend.device_type] = backend


def backend_for(device: torch.device, distribution: str | None = None) -> DeviceBackend:
    """The backend that serves a device's type.

    Args:
        distribution: the installed distribution to take it from, whatever is registered.

    Raises:
        LookupError: none is installed (or not by that distribution), or several are and nothing says which to take; the
            message says how to.
    """
    kind = device.type
    if distribution is not None:
        return _named(kind, distribution, _installed(kind))
    found = _registered.get(kind) or _only.get(kind)
    if found is None:
        found = _only[kind] = _unnamed(kind)
    return found


def class_name(backend: DeviceBackend) -> str:
    """Which backend it is: its class, by module and name."""
    kind = type(backend)
    return f"{kind.__module__}.{kind.__qualname__}"


def traits_of(device: torch.device) -> DeviceTraits:
    """What the backend of a device says of it; what holds by default, where none is installed.

    Raises:
        LookupError: several are installed, and nothing says which to take.
    """
    return Devices().traits(device)


@dataclass(frozen=True)
class Devices:
    """The backends of one compile."""

    given: Mapping[str, DeviceBackend] = field(default_factory=dict)
    """By device type: these before any other."""
    chosen: Mapping[str, str] = field(default_factory=dict)
    """Device type to the distribution whose backend to take."""

    def backend(self, device: torch.device) -> DeviceBackend:
        """The one that serves the device; raises as `backend_for`."""
        return self.given.get(device.type) or backend_for(device, self.chosen.get(device.type))

    def traits(self, device: torch.device) -> DeviceTraits:
        """What it says of the device; see `traits_of`."""
        try:
            return self.backend(device).traits
        except NoBackend:
            return DeviceTraits()


def _unnamed(kind: str) -> DeviceBackend:
    """What to take where a compile says nothing."""
    installed = _installed(kind)
    wanted = _wanted().get(kind)
    if wanted is not None:
        return _named(kind, wanted, installed)
    if not installed:
        raise NoBackend(f"no device backend for {kind!r} is installed: no entry point of that name in {GROUP}")
    if len(installed) > 1:
        one = next(iter(installed))
        raise LookupError(
            f"device backends for {kind!r} are installed by {', '.join(installed)}; name the one to take: "
            f"Options(backends={{{kind!r}: {one!r}}}), {VARIABLE}={kind}={one} in the environment, or register_backend(...)"
        )
    return _named(kind, next(iter(installed)), installed)


def _named(kind: str, distribution: str, installed: Mapping[str, EntryPoint]) -> DeviceBackend:
    name = normal(distribution)
    if name not in installed:
        message = (
            f"{distribution!r} brings no device backend for {kind!r}; installed are {', '.join(installed) or 'none'}"
        )
        raise LookupError(message)
    if (kind, name) not in _loaded:
        import_whole(installed[name].module)  # since its own import is no matter of threads that fork
        made: DeviceBackend = installed[name].load()()
        if made.device_type != kind:
            raise LookupError(
                f"{distribution!r} gives for {kind!r} the backend {class_name(made)}, for {made.device_type!r}"
            )
        _loaded[kind, name] = made
    return _loaded[kind, name]


def _installed(kind: str) -> dict[str, EntryPoint]:
    """Entry points for a device type by the distribution that has them."""
    found: dict[str, EntryPoint] = {}
    for each in distributions_saying(GROUP):
        for entry in each.entry_points.select(group=GROUP, name=kind):
            found.setdefault(normal(each.name), entry)
    return found


def _wanted() -> dict[str, str]:
    """What the environment says: device type to distribution.

    Raises:
        LookupError: it isn't written as `<device type>=<distribution>`, several of these apart by commas.
    """
    found: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in os.environ.get(VARIABLE, "").split(","))):
        kind, told, distribution = part.partition("=")
        if not (told and kind.strip() and distribution.strip()):
            raise LookupError(f"{VARIABLE} holds {part!r}, which is no <device type>=<distribution>")
        found[kind.strip()] = distribution.strip()
    return found
