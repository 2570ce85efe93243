"""What a node's process is told: all of it comes back, and an identity that the roster does not name is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.federation.nodes.harness import Site
from tests.seals.quorum.room import seeded

from hushtune.core.errors import SettingError
from hushtune.core.roster import Roster
from hushtune.federation.nodes.own import Own, heard, told


@pytest.mark.parametrize("pinned", [True, False])
def test_all_of_it_comes_back(tmp_path: Path, pinned: bool) -> None:
    roster = Site(tmp_path, node2="127.0.0.1:7000").roster
    if not pinned:
        roster = Roster(roster.ids, nodes=roster.nodes)
    for own in (
        Own("node-1", seeded("node-1"), tmp_path, 3, served=True),
        Own(None, tmp_path / "identity", tmp_path),
    ):
        assert heard(told(own, roster)) == (own, roster)


def test_the_name_is_the_one_that_the_roster_gives_the_key(tmp_path: Path) -> None:
    roster = Site(tmp_path).roster
    seeded("node-2").save(tmp_path / "identity")
    own = Own(None, tmp_path / "identity", tmp_path)
    assert own.named(roster) == ("node-2", seeded("node-2"))
    assert replace(own, name="node-2").named(roster)[0] == "node-2"
    with pytest.raises(SettingError, match="name must be 'node-2', as in the roster, but got 'node-1'"):
        replace(own, name="node-1").named(roster)
    with pytest.raises(SettingError, match="3 nodes with other keys \\(node-1, node-2, node-3\\); make one with"):
        replace(own, identity=seeded("client-1")).named(roster)  # which is a client, and no node
    with pytest.raises(SettingError, match="but it names no nodes"):
        own.named(replace(roster, nodes=()))
