"""The package's errors, each with its reason in words."""


class EmtError(RuntimeError):
    """Any of them."""


class Unavailable(EmtError):
    """This process, kernel or machine does not allow the requested tracking or tiering."""


class AlreadyTracking(EmtError):
    """Tracking is on already; there is one for a process."""


class NotTracking(EmtError):
    """Tracking is not on."""
