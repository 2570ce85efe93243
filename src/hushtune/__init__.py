"""hushtune: tune hyperparameters across parties that may not show each other their data.

>>> import hushtune as ht
>>> space = ht.Space(lr=ht.Float(1e-4, 1.0, log=True), momentum=ht.Choice([0.0, 0.9]))
"""

from hushtune.core.lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__, __file__, extras=("DPSGD", "TorchObjective"))
