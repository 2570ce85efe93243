"""Flower and Ray ask nobody and write only where tests may."""

from __future__ import annotations

import os
import tempfile

from tests.federation.flower.deployment import QUIET

os.environ.update(QUIET, FLWR_HOME=tempfile.mkdtemp(prefix="flwr-"))
