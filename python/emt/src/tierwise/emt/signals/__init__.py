"""Signals of hotness: they share one interface, and each has one file."""

from .base import Sampled, Signal
from .make import make_signal

__all__ = ["Sampled", "Signal", "make_signal"]
