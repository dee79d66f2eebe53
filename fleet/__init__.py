"""Tests of Tierwise with the real parts of a fleet."""

import sys
from pathlib import Path

# The lab's package manager and its guests.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lab"))
