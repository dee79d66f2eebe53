"""The only error that reaches a user of the lab."""


class LabError(Exception):
    """A missing or failed part of the lab; the text names it and the remedy."""
