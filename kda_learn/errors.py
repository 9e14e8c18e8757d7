"""What this package raises at people: one sentence with what was given, what is wanted, what to do."""


class KdaError(Exception):
    """Base of every error that is meant to be read by a person, not debugged."""


class BadInput(KdaError, ValueError):
    """An argument does not fit: a shape, a type, a name, a range."""


class MachineUnavailable(KdaError, RuntimeError):
    """This computer lacks what the call needs: a GPU, a driver, a C++ compiler, a permission, memory."""
