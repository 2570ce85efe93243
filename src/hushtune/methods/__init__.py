"""What is asked and how it is decided: one folder per published system, with its queries, decoding and plan.

A method reads opened values and public facts only. It must not know transports, ledgers or which client said what.
"""

from hushtune.core.lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__, __file__)
