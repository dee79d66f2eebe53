"""The one error that a user of the lab sees."""


class LabError(Exception):
    """Something that the lab needs is missing or went wrong; the text names it and the remedy."""
