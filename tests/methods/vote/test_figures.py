"""What a report says of a winner."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import hushtune as ht
from hushtune.methods.vote.figures import winner_figure


def test_it_names_the_place_and_what_nobody_can_tell() -> None:
    candidates = ht.Space(x=ht.Int(0, 4)).grid()
    told: Any = SimpleNamespace(candidates=candidates, opened=[SimpleNamespace(blocks={"answers": [3]})])
    figure = winner_figure(told, prior=False)
    assert figure.words.startswith("Only the winner's place was opened: candidate 3 of 5 has the largest total")
    assert "how far ahead the winner is" in figure.words
    assert "the largest total of all ballots, as far" in figure.words
    assert "of all ballots and of the public prior, as far" in winner_figure(told, prior=True).words
    assert (figure.svg, figure.columns, figure.rows) == ("", (), ())
