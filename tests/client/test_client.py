from __future__ import annotations

import numpy as np
import pytest
from tests.conftest import distance

import hushtune as ht


def test_bad_clients() -> None:
    with pytest.raises(ht.SettingError, match="objective, or an Optuna study"):
        ht.Client((np.zeros(1), np.zeros(1)))
    with pytest.raises(ht.SettingError, match="needs data"):
        ht.Client(objective=distance)
    with pytest.raises(ht.SettingError, match="got 3 items"):
        ht.Client((1, 2, 3), distance)
    with pytest.raises(ht.SettingError, match="got 2 and 3"):
        ht.Client((np.zeros(2), np.zeros(3)), distance)
