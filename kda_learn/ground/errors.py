"""What this package raises at people: one sentence with what was given, what is wanted, what to do."""


class KdaError(Exception):
    """Base of every error that is meant to be read by a person, not debugged."""

    def _render_traceback_(self) -> list[str]:
        """What a notebook shows below the cell: the sentence, without the calls that led to it."""
        return [f"{type(self).__name__}: {self}"]


class BadInput(KdaError, ValueError):
    """An argument does not fit: a shape, a type, a name, a range."""


class MachineUnavailable(KdaError, RuntimeError):
    """This computer lacks what the call needs: a GPU, a driver, a C++ compiler, a permission, memory."""
