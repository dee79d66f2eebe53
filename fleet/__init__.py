"""Tests of Tierwise with the real parts of a fleet."""
