"""The parts of nearfield.text: passages, the index of a folder, and questions."""


class TextError(Exception):
    """A folder, file or collection that cannot be used; the message says what to change."""
