"""Several methods, seals and guarantees on one simulated federation, side by side."""

from hushtune.core.lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__, __file__)
