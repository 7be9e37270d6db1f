"""What can be wrong with bytes that come in, and with a message that is to go out."""


class MalformedMessage(ValueError):
    """The bytes are not this message at this version. The text names the field."""


class UnencodableMessage(ValueError):
    """The message can't be written at this version. The text names the field."""
