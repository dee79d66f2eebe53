"""The package's errors, each with its reason in words."""


class EmtError(RuntimeError):
    """The base of the package's errors."""


class Unavailable(EmtError):
    """This process, kernel or machine does not allow the requested tracking or tiering."""


class Unplaceable(EmtError):
    """This object has no memory that can be placed."""


class AlreadyTracking(EmtError):
    """Tracking is already on; a process has at most one."""


class NotTracking(EmtError):
    """Tracking is not on."""
