"""Inside one party, and the one way out of it.

Here lives what touches private data: rows, trials, searches and objectives; `release` is the only door. It must not
know who asks, over which transport, or how the server decides.
"""

from hushtune.core.lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__, __file__, extras=("TorchObjective",))
