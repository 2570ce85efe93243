"""Before and after a run: planning, comparing, verifying, and the pages that people read.

It reads results and public facts. It must not touch private data, except in marked simulations.
"""

from hushtune.core.lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__, __file__)
