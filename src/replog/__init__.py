"""Replog: a partitioned, replicated commit log that speaks the Kafka wire protocol."""

from replog.version import __version__

__all__ = ["__version__"]
