from __future__ import annotations

import pytest

import hushtune as ht
from hushtune.core.roster import Roster


def test_a_pinned_roster_has_a_seed() -> None:
    """Without one, a server would choose the neighbours by choosing the run's id."""
    with pytest.raises(ht.SettingError, match="random seed of 32 bytes, but got 0 bytes"):
        Roster(("a",), (bytes(32),))


def test_rosters_name_each_client_once() -> None:
    with pytest.raises(ht.HushtuneError):
        Roster(("a", "a"))
    with pytest.raises(ht.HushtuneError):
        Roster(())
