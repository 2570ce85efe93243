"""One run: asks for private sums, keeps the books, lets a method decide, and states what that revealed.

Here lives the server's side of a run and its result. It must not know any single method, seal or transport.
"""

from hushtune.core.lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__, __file__)
