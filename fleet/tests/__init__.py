"""Tests with real parts, on this host and without a container."""
