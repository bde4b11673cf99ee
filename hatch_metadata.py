"""Hatchling's hook that says what each distribution depends on: its `requires`, and its `siblings` in this very version.

Every package links to this file; a source distribution holds a copy, and its PKG-INFO what the hook answered.
"""

from __future__ import annotations

from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class SiblingPins(MetadataHookInterface):
    """`[tool.hatch.metadata.hooks.custom]`: `requires` and `siblings`, two lists of requirements and of names."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        """Called by hatchling with the `[project]` table, whose version is known by now."""
        pins = [f"{name}=={metadata['version']}" for name in self.config["siblings"]]
        metadata["dependencies"] = [*self.config["requires"], *pins]
