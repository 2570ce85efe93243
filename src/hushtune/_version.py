"""The one place of the version number that code reads."""

__version__ = "0.2.0.dev0"
