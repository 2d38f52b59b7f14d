"""Builds the documentation site before hatchling puts it into a wheel.

An editable installation gets the site too, so that `make up` in a new clone serves it.
"""

import os
import runpy
import subprocess
import sys
from importlib.util import find_spec
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class SiteHook(BuildHookInterface[Any]):
    def dependencies(self) -> list[str]:
        """The packages that the build needs: none, where the site is current."""
        if self._is_current():
            return []
        return list(self.metadata.core.optional_dependencies["docs"])

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self._is_current():
            return
        if version == "editable" and find_spec("sphinx") is None:
            self.app.display_warning("Sphinx is not installed, so /docs is missing: make docs")
            return
        words = [sys.executable, self._program, "--if-changed"]
        if subprocess.run(words, check=False).returncode != 0:  # noqa: S603 - our own program
            self.app.abort("The documentation cannot be built.")

    def _is_current(self) -> bool:
        is_current: bool = runpy.run_path(self._program)["is_current"]()
        return is_current

    @property
    def _program(self) -> str:
        return os.path.join(self.root, "docs", "build.py")
