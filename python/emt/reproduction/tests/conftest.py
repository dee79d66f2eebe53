"""The fixtures and helpers of tierwise.emt's tests."""

import importlib.util
import sys
from pathlib import Path

TESTS = Path(__file__).parents[2] / "tests"
sys.path.insert(0, str(TESTS))
# Both files are named conftest.
_spec = importlib.util.spec_from_file_location("emt_conftest", TESTS / "conftest.py")
assert _spec and _spec.loader
_shared = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_shared)

Program = _shared.Program
program = _shared.program
tracking_is_off_afterwards = _shared.tracking_is_off_afterwards
