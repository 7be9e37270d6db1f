"""The version of the package, of the files on disk and of the messages between brokers."""

__version__ = "0.1.0"

# Written to `meta.properties` in each log folder. A folder with a greater number was written by a
# newer Replog and is refused: reading it by old rules could lose records.
DISK_FORMAT_VERSION = 1

# Exchanged in the handshake between brokers. A peer with a greater number is refused.
INTER_BROKER_VERSION = 1
