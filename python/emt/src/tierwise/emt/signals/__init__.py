"""Signals of hotness: one interface, one file each."""

from .base import Looked, Signal
from .make import make_signal

__all__ = ["Looked", "Signal", "make_signal"]
