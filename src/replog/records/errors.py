"""What can be wrong with the bytes of a record batch."""


class CorruptBatch(Exception):
    """The bytes are no record batch, or contradict themselves; the text says where and how."""


class UndecodablePayload(CorruptBatch):
    """The header is sound, but the codec is unknown or the compressed payload can't be expanded."""
