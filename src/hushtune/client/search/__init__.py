"""How clients fill their trials: by scoring every candidate, or by a search of their own."""

from hushtune.core.lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__, __file__)
