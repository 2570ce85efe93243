import pytest
from hushtune_veto import Veto

from hushtune.testing import Cell, cells


@pytest.mark.parametrize("cell", cells(Veto()), ids=str)
def test_every_seal_and_noise(cell: Cell) -> None:
    assert cell.check().state != "refused" or (cell.seal.name, cell.noise) == ("curator", "exact")
