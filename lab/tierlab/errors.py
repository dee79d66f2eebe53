"""The only error that reaches a user of the lab."""


class LabError(Exception):
    """Something that the lab needs is missing or went wrong; the text names it and the remedy."""
