"""Signals of hotness: they share one interface, and each has one file."""

from .base import Sampled, Signal
from .make import make_signal
from .pages import PageSignal

__all__ = ["PageSignal", "Sampled", "Signal", "make_signal"]
