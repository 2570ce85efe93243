"""What a report shows of agents that share: how loud what they shared was beside noise alone."""

from __future__ import annotations

from html import escape

import numpy as np

from hushtune.core.plots import WIDTH, levels, round_ticks, svg_of
from hushtune.core.svg import Area, Axis, polyline, text
from hushtune.methods.figures import Figure, Told


def figures_of(told: Told, name: str) -> list[Figure]:
    """How loud the vectors were that agents shared.

    Args:
        told: the result.
        name: of the query that asks for the vectors.
    """
    plot = _loudness_plot(told, name)
    if not plot:
        return []
    words = "How long the vectors were that agents shared, opening by opening"
    if told.private:
        words += "; noise alone would be as long as the line says"
    return [Figure(f"{words}.", plot)]


def _loudness_plot(told: Told, name: str) -> str:
    """The norm of every opened vector of agents' weights, beside that of noise alone; empty if there are none."""
    opened = [one for one in told.opened if one.query == name]
    if not opened:
        return ""
    norms = [float(np.linalg.norm(np.asarray(one.blocks["vectors"], dtype=np.float64))) for one in opened]
    noise = [(one.noise_variance * len(one.blocks["vectors"])) ** 0.5 for one in opened]
    up, across = Axis("", round_ticks(0.0, max(*norms, *noise, 1.0))), Axis("", (0.0, float(len(opened))))
    area = Area(60, 20, WIDTH - 80, 120)
    parts = levels(area, up)
    width = area.width / len(opened)
    for place, (norm, alone) in enumerate(zip(norms, noise, strict=True)):
        x, y = area.place(across, up, (place + 0.5, norm))
        tip = f"opening {place + 1}: {norm:.4g}" + (f"; noise alone {alone:.4g}" if alone else "")
        parts.append(
            f'<rect class="band" x="{x - width * 0.3:.1f}" y="{y:.1f}" width="{width * 0.6:.1f}" '
            f'height="{area.top + area.height - y:.1f}"><title>{escape(tip)}</title></rect>'
        )
    if any(noise):
        line = [area.place(across, up, (place + shift, alone)) for place, alone in enumerate(noise) for shift in (0, 1)]
        parts.append(polyline(line, "posterior"))
    parts.append(text(area.left + area.width / 2, area.top + area.height + 22, "openings, in order", "middle"))
    return svg_of("plot-loudness", 170, parts)
