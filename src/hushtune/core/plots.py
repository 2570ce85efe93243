"""What plots of the report share: a page-wide picture, its levels, and where configs lie on a knob's axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hushtune.core.arrays import FloatArray
from hushtune.core.space import Choice, Numeric, Space
from hushtune.core.svg import Area, Axis, text

WIDTH = 900.0


def svg_of(name: str, height: float, parts: Sequence[str]) -> str:
    """A plot of the page's width."""
    body = "\n".join(parts)
    return f'<svg id="{name}" class="plot" role="img" viewBox="0 0 {WIDTH:g} {height:g}">\n{body}\n</svg>'


def round_ticks(low: float, high: float) -> list[float]:
    """Round numbers that cover the range."""
    raw = (high - low) / 5
    power = 10.0 ** np.floor(np.log10(raw))
    step = float(next(step * power for step in (1, 2, 5, 10) if step * power >= raw))
    return [step * at for at in range(int(np.floor(low / step)), int(np.ceil(high / step)) + 1)]


def levels(area: Area, up: Axis) -> list[str]:
    """Lines across a plot, at the ticks of its upright axis."""
    parts = []
    for tick in up.ticks:
        y = area.top + (1 - up.at(tick)) * area.height
        parts.append(f'<line class="grid" x1="{area.left}" y1="{y:.1f}" x2="{area.left + area.width}" y2="{y:.1f}"/>')
        parts.append(text(area.left - 6, y + 4, f"{tick:,g}", "end"))
    return parts


def knob_ends(space: Space, name: str) -> list[tuple[str, float]]:
    """What stands below a knob's axis: its ends, or all its choices."""
    knob = space.knobs[name]
    if isinstance(knob, Choice):
        return [(short(choice), at / max(1, len(knob.choices) - 1)) for at, choice in enumerate(knob.choices)]
    assert isinstance(knob, Numeric)
    return [(short(knob.low), 0.0), (short(knob.high), 1.0)]


def along(space: Space, name: str, points: FloatArray) -> FloatArray:
    """Where points lie on a knob's axis, from 0 to 1."""
    columns = points[:, space.columns[name]]
    if isinstance(space.knobs[name], Choice):
        return np.asarray(columns.argmax(axis=1) / max(1, columns.shape[1] - 1))
    return np.asarray(columns[:, 0])


def short(value: Any) -> str:
    """A value in a few characters."""
    shown = f"{value:.3g}" if isinstance(value, float) else str(value)
    return shown if len(shown) <= 12 else shown[:11] + "…"


def described(config: Mapping[str, Any]) -> str:
    """A config in one line."""
    return ", ".join(f"{name}={short(value)}" for name, value in config.items())
