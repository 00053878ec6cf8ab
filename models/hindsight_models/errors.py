"""What this package raises."""


class ModelError(Exception):
    """A model, its folder or its device can't be used; the message says what to do."""


class TextError(ModelError):
    """A text got no vector that could be used.

    Attributes
    ----------
    text : int
        The number of the text among those of the call, from 0.
    """

    def __init__(self, text: int, message: str) -> None:
        super().__init__(message)
        self.text = text


class RequestError(ModelError):
    """What was asked for makes no sense."""


class TakenError(RequestError):
    """Where a model is to be put, there is something else."""


class OutOfMemoryError(ModelError):
    """A batch does not fit in the memory of its device; a smaller one may."""
