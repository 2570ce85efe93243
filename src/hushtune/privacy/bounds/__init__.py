"""What ONE privacy unit's vector must satisfy. The runtime enforces bounds, and the cost follows from them."""

from hushtune.core.lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__, __file__)
