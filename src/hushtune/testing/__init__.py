"""Conformance suites for methods, queries, bounds, noise, seals and federations.

hushtune's own pass them, and whoever writes one can run them too.

>>> import hushtune as ht
>>> from hushtune.testing import cells
>>> outcomes = [cell.check() for cell in cells(ht.Vote(k=2))]  # doctest: +SKIP
"""

from __future__ import annotations

from hushtune.testing.bounds import check_bound
from hushtune.testing.cells import Cell, Outcome, cells
from hushtune.testing.federations import check_federation
from hushtune.testing.noise import check_noise
from hushtune.testing.queries import check_query
from hushtune.testing.seals import check_seal

__all__ = ["Cell", "Outcome", "cells", "check_bound", "check_federation", "check_noise", "check_query", "check_seal"]
