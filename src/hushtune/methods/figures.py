"""What a method adds to a report: figures and tables, drawn from opened values and public facts only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Protocol

import numpy as np

from hushtune.client.pairs import Pairs
from hushtune.core.plots import WIDTH, along, knob_ends, round_ticks, svg_of
from hushtune.core.roster import Id
from hushtune.core.space import Candidates, Config
from hushtune.core.svg import COLOURS, Area, Axis, text

_LONGEST = 300  # characters of a config in a text
_MOST_DOTS = 3_000  # in a panel of pairs; with more, every second or third of each client's


@dataclass(frozen=True)
class Figure:
    """One part of a report.

    Args:
        words: what is seen, in a sentence or two.
        svg: a plot, if there is one.
        columns: the heads of a table, if there is one.
        rows: its rows.
    """

    words: str = ""
    svg: str = ""
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[Any, ...], ...] = ()


class Opening(Protocol):
    """What one step opened."""

    @property
    def query(self) -> str:
        """The name of the query whose answers were opened."""
        ...

    @property
    def blocks(self) -> Mapping[str, Sequence[Any]]:
        """The opened values, by block."""
        ...

    @property
    def noise_variance(self) -> float:
        """The variance of the noise on each entry."""
        ...

    @property
    def form(self) -> Mapping[str, Any] | None:
        """Which form of the sum was opened, if not the sum."""
        ...


class Told(Protocol):
    """What a result tells a method that draws figures of it."""

    @property
    def config(self) -> Config:
        """The config that was chosen."""
        ...

    @property
    def candidates(self) -> Candidates:
        """The public list that was chosen from."""
        ...

    @property
    def opened(self) -> Sequence[Opening]:
        """What each step opened, in order."""
        ...

    @property
    def notes(self) -> Mapping[str, str | float]:
        """What the method computed from opened values."""
        ...

    @property
    def private(self) -> bool:
        """Whether the run has an epsilon."""
        ...

    def pairs(self) -> Mapping[Id, Pairs]:
        """Every client's own pairs, if they were opened."""
        ...


def value_text(value: Any) -> str:
    """A value as a report shows it."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def config_text(config: Mapping[str, Any]) -> str:
    """A config as texts show it, in one line, whatever its texts hold."""
    found = ", ".join(f"{name} = {value_text(value)}" for name, value in config.items())
    return "".join(one if one.isprintable() else "?" for one in found[:_LONGEST])


def notes_figure(told: Told, head: str) -> Figure:
    """What the method noted, as a table."""
    return Figure(columns=(head, ""), rows=tuple((name, value_text(value)) for name, value in told.notes.items()))


def pairs_figure(told: Told) -> Figure:
    """Every client's own pairs, knob by knob."""
    words = "Every client's own (config, loss) pairs, a colour per client; the line is where the chosen config lies."
    return Figure(words, _pairs_plot(told))


def _pairs_plot(told: Told) -> str:
    """A panel per knob: every opened pair by the knob's value and its loss; a line where the chosen config lies."""
    space, pairs = told.candidates.space, told.pairs()
    losses = np.concatenate([own.losses for own in pairs.values()])
    ends = round_ticks(float(losses.min()), max(float(losses.max()), float(losses.min()) + 1e-6))
    up, across = Axis("loss", ends), Axis("", (0.0, 1.0))
    chosen = space.encode([told.config])
    each, every = min(3, len(space.knobs)), -(-len(losses) // _MOST_DOTS)
    parts = []
    for number, name in enumerate(space.knobs):
        width, height = (WIDTH - 60) / each, 200.0
        area = Area(60 + (number % each) * width, 30 + (number // each) * (height + 70), width - 40, height)
        for tick in up.ticks:
            y = area.place(across, up, (0, tick))[1]
            parts.append(
                f'<line class="grid" x1="{area.left}" y1="{y:.1f}" x2="{area.left + area.width}" y2="{y:.1f}"/>'
            )
            if number % each == 0:
                parts.append(text(area.left - 6, y + 4, f"{tick:,.3g}", "end"))
        x = area.place(across, up, (along(space, name, chosen)[0], 0))[0]
        parts.append(f'<line class="chosen-at" x1="{x:.1f}" y1="{area.top}" x2="{x:.1f}" y2="{area.top + height}"/>')
        for at, (client, own) in enumerate(pairs.items()):
            places = zip(along(space, name, own.points)[::every], own.losses[::every], strict=True)
            dots = (area.place(across, up, (float(value), float(loss))) for value, loss in places)
            circles = "".join(f'<circle cx="{px:.1f}" cy="{py:.1f}" r="2"/>' for px, py in dots)
            parts.append(f'<g class="pair s{at % len(COLOURS)}"><title>{escape(client)}</title>{circles}</g>')
        parts.append(text(area.left + area.width / 2, area.top + height + 36, name, "middle"))
        for word, place in knob_ends(space, name):
            parts.append(text(area.left + place * area.width, area.top + height + 18, word, "middle"))
    rows = -(-len(space.knobs) // each)
    return svg_of("plot-pairs", 30 + rows * 270.0, parts)
