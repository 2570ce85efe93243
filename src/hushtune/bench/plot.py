"""A small log-log plot as SVG, so that figures need no plotting library."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from xml.sax.saxutils import escape

_WIDTH, _HEIGHT, _LEFT, _TOP, _RIGHT, _BOTTOM = 660, 380, 90, 40, 40, 55
_STYLE = """<style>
text { font: 13px system-ui, sans-serif; fill: #1b2733 } .grid { stroke: #d5dde5 } .axis { stroke: #44566a }
.a { stroke: #2b5c8a; fill: #2b5c8a } .b { stroke: #b3661a; fill: #b3661a } .line { fill: none; stroke-width: 2 }
@media (prefers-color-scheme: dark) { text { fill: #e8eef4 } .grid { stroke: #33424f } .axis { stroke: #a9bccd } }
</style>"""


def log_log(path: Path, title: str, x_name: str, y_name: str, series: dict[str, Sequence[tuple[float, float]]]) -> None:
    """Writes up to two named series of positive points."""
    points = [point for found in series.values() for point in found]
    xs, ys = _decades([x for x, _ in points]), _decades([y for _, y in points])

    def place(x: float, y: float) -> tuple[float, float]:
        across = (math.log10(x) - xs[0]) / (xs[-1] - xs[0])
        up = (math.log10(y) - ys[0]) / (ys[-1] - ys[0])
        return _LEFT + across * (_WIDTH - _LEFT - _RIGHT), _HEIGHT - _BOTTOM - up * (_HEIGHT - _TOP - _BOTTOM)

    parts = [f'<text x="{_LEFT}" y="22">{escape(title)}</text>']
    for decade in xs:
        x, bottom = place(10.0**decade, 10.0 ** ys[0])
        parts.append(f'<line class="grid" x1="{x:.1f}" y1="{_TOP}" x2="{x:.1f}" y2="{bottom:.1f}"/>')
        parts.append(f'<text x="{x:.1f}" y="{bottom + 18:.1f}" text-anchor="middle">{10.0**decade:,g}</text>')
    for decade in ys:
        x, y = place(10.0 ** xs[0], 10.0**decade)
        parts.append(f'<line class="grid" x1="{x:.1f}" y1="{y:.1f}" x2="{_WIDTH - _RIGHT}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{x - 8:.1f}" y="{y + 4:.1f}" text-anchor="end">{10.0**decade:,g}</text>')
    parts.append(f'<text x="{_WIDTH / 2}" y="{_HEIGHT - 12}" text-anchor="middle">{escape(x_name)}</text>')
    middle = (_TOP + _HEIGHT - _BOTTOM) / 2
    turn = f'transform="rotate(-90 20 {middle})"'
    parts.append(f'<text x="20" y="{middle}" text-anchor="middle" {turn}>{escape(y_name)}</text>')
    for style, (name, found) in zip("ab", series.items(), strict=False):
        placed = [place(x, y) for x, y in found]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in placed)
        parts.append(f'<polyline class="line {style}" points="{line}"/>')
        parts += [f'<circle class="{style}" cx="{x:.1f}" cy="{y:.1f}" r="4"/>' for x, y in placed]
        end = placed[-1]
        parts.append(f'<text x="{end[0] - 8:.1f}" y="{end[1] - 10:.1f}" text-anchor="end">{escape(name)}</text>')
    body = "\n".join(parts)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}">\n{_STYLE}\n{body}\n</svg>\n',
        encoding="utf-8",
    )


def _decades(values: Sequence[float]) -> list[int]:
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return list(range(low, max(high, low + 1) + 1))
