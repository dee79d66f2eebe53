"""Registers the environment with Gymnasium, without importing Gymnasium.

The imports of Gymnasium and numpy take a third of a second and start threads. A program that only
runs scenarios, or that ``tierwise.emt`` tracks, does not need them. Gymnasium 1 does not search for
entry points. The environment is therefore registered at once if Gymnasium is imported, else at
Gymnasium's import.
"""

import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

ID = "tierwise/FastTier-v0"


def register_when_gymnasium_comes() -> None:
    """Registers ``tierwise/FastTier-v0``, now or as soon as the program imports Gymnasium."""
    if "gymnasium" in sys.modules:
        _register()
    else:
        sys.meta_path.insert(0, _Finder())


def _register() -> None:
    import gymnasium

    # The first use of this name imports the module.
    gymnasium.register(id=ID, entry_point="tierwise.env:TierwiseEnv")


class _Finder(MetaPathFinder):
    """Finds Gymnasium once, through the other finders. Its loader then registers the
    environment."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != "gymnasium":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


class _Loader(Loader):
    def __init__(self, real: Loader) -> None:
        self._real = real

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._real.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        # The module keeps the loader that it would have without this package.
        module.__loader__ = self._real
        if module.__spec__ is not None:
            module.__spec__.loader = self._real
        self._real.exec_module(module)
        _register()
