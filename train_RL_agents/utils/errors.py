"""Text of errors."""


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, without the traces that torch appends."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
