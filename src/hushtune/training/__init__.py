"""Training with the chosen config: federated averaging, and private training by one owner.

Here live learners and what trains them. It must not know how a run is reported or planned.
"""

from hushtune.core.lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__, __file__, extras=("DPSGD",))
