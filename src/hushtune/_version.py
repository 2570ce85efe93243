"""The one place of the version number that code reads."""

__version__ = "0.1.0"
