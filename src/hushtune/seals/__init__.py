"""Who can see what: how single contributions stay hidden until only the protected sum, or less, is opened.

Each seal is a class of settings with a server's end and a client's end, both of which exchange bytes. It must not know
methods, transports, or how a client computes what it sends.
"""

from hushtune.core.lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__, __file__)
