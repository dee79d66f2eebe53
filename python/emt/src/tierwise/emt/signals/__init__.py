"""Signals of hotness: one interface, one file each."""

from .base import Sampled, Signal
from .make import make_signal

__all__ = ["Sampled", "Signal", "make_signal"]
