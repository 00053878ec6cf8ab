"""The one error that this package raises."""


class ModelError(Exception):
    """A model, its folder or its device can't be used; the message says what to do."""
