"""The version, that of rtswap's workspace."""

__version__ = "0.1.0"
