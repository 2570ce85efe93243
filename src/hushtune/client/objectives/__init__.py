"""How a client scores configs on its own data."""

from hushtune.core.lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__, __file__, extras=("TorchObjective",))
