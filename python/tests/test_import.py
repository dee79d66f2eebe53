"""Tests of the cost of importing the package, and of the environment's registration in either order
of imports."""

import subprocess
import sys

import pytest


def printed(text: str) -> str:
    """Runs a separate program and returns its output."""
    return subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, check=True
    ).stdout.strip()


def test_importing_it_imports_neither_gymnasium_nor_numpy() -> None:
    assert (
        printed(
            "import sys, tierwise; "
            "print([name for name in ('gymnasium', 'numpy') if name in sys.modules])"
        )
        == "[]"
    )


@pytest.mark.parametrize(
    "first",
    [
        "tierwise, gymnasium",
        "gymnasium, tierwise",
        "tierwise.env, gymnasium",
        "tierwise, gymnasium.vector",
    ],
)
def test_the_environment_is_registered_whichever_comes_first(first: str) -> None:
    text = (
        f"import {first}; import gymnasium; "
        "print('tierwise/FastTier-v0' in gymnasium.registry, "
        "gymnasium.__spec__.loader is gymnasium.__loader__)"
    )
    assert printed(text) == "True True"


def test_a_missing_name_is_reported() -> None:
    assert "it has: Agent" in printed(
        "import tierwise\ntry:\n    tierwise.Envy\n"
        "except AttributeError as error:\n    print(error)"
    )
