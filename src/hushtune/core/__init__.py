"""Plain values that everything else is made of: spaces, arrays, files, bytes on the wire, names and keys.

Here lives what knows nothing of privacy, clients or runs, observers and worker processes too. It imports from no other
package of hushtune.
"""

from hushtune.core.lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__, __file__)
