"""The parts of nearfield.text: models, passages, the index of a folder, and questions."""


class TextError(Exception):
    """A folder, file, model or collection that cannot be used; the message says what to change."""
