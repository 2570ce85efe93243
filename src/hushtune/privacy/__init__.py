"""What an opening costs: bounds on what one unit can change, noise, events, accounting, ledgers and policies.

Here live theorems and books. It must not know what a client, a seal or a method is.
"""

from hushtune.core.lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__, __file__)
