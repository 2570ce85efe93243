"""Small plots as SVG, so that figures and reports need no plotting library. Light and dark follow the reader."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from xml.sax.saxutils import escape

COLOURS = ("#2b6cb0", "#c05621", "#2f855a", "#805ad5", "#b83280", "#4a5568", "#b7791f", "#2c7a7b")
STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#1b2733}.grid{stroke:#d5dde5}.line{fill:none;stroke-width:2}"
    ".dashed{stroke-dasharray:2 4;stroke-width:1.5}.level{stroke:#718096}"
    + "".join(f".s{i}{{stroke:{c};fill:{c}}}" for i, c in enumerate(COLOURS))
    + ".line{fill:none}.band{stroke:none;fill-opacity:.2}"
    "@media (prefers-color-scheme:dark){text{fill:#e8eef4}.grid{stroke:#33424f}}"
)
Points = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Axis:
    """From the first tick to the last; on a logarithmic scale if `log`."""

    name: str
    ticks: Sequence[float]
    log: bool = False
    words: Mapping[float, str] = field(default_factory=dict)  # for ticks that are not to be shown as they are

    def word(self, tick: float) -> str:
        """What stands at a tick."""
        return self.words.get(tick, f"{tick:,g}")

    def at(self, value: float) -> float:
        """Where a value lies between the ends: 0 to 1."""
        low, high, here = (math.log(v) if self.log else v for v in (self.ticks[0], self.ticks[-1], value))
        return (here - low) / (high - low)


def decades(name: str, values: Sequence[float]) -> Axis:
    """A logarithmic axis with a tick at each power of ten around the values."""
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return Axis(name, [10.0**decade for decade in range(low, max(high, low + 1) + 1)], log=True)


@dataclass(frozen=True)
class Area:
    """Where the inside of a plot lies in its picture, in units of the picture."""

    left: float
    top: float
    width: float
    height: float

    def place(self, x: Axis, y: Axis, point: tuple[float, float]) -> tuple[float, float]:
        """A point of the plot in the picture."""
        return self.left + x.at(point[0]) * self.width, self.top + (1 - y.at(point[1])) * self.height


def panel(
    area: Area,
    title: str,
    x: Axis,
    y: Axis,
    series: Mapping[str, Points],
    dashed: Mapping[str, Points] | None = None,
    labels: bool = False,
) -> str:
    """Axes and named series, each in its colour; `dashed` ones have the colour of the series of the same name."""
    parts = [text(area.left, area.top - 10, title)]
    for tick in x.ticks:
        at = area.left + x.at(tick) * area.width
        parts.append(f'<line class="grid" x1="{at:.1f}" y1="{area.top}" x2="{at:.1f}" y2="{area.top + area.height}"/>')
        parts.append(text(at, area.top + area.height + 17, x.word(tick), "middle"))
    for tick in y.ticks:
        at = area.top + (1 - y.at(tick)) * area.height
        parts.append(f'<line class="grid" x1="{area.left}" y1="{at:.1f}" x2="{area.left + area.width}" y2="{at:.1f}"/>')
        parts.append(text(area.left - 7, at + 4, y.word(tick), "end"))
    parts.append(text(area.left + area.width / 2, area.top + area.height + 36, x.name, "middle"))
    middle, side = area.top + area.height / 2, area.left - 48
    turn = f' transform="rotate(-90 {side} {middle})"'
    parts.append(f'<text x="{side}" y="{middle}" text-anchor="middle"{turn}>{escape(y.name)}</text>')
    for number, (name, points) in enumerate(series.items()):
        placed = [area.place(x, y, point) for point in points]
        parts.append(polyline(placed, f"line s{number}"))
        parts += [f'<circle class="s{number}" cx="{px:.1f}" cy="{py:.1f}" r="3"/>' for px, py in placed]
        if labels:
            parts.append(text(placed[-1][0] - 8, placed[-1][1] - 10, name, "end"))
        if dashed is not None and name in dashed:
            parts.append(polyline([area.place(x, y, point) for point in dashed[name]], f"line dashed s{number}"))
    return "\n".join(parts)


def polyline(points: Points, style: str) -> str:
    """A line through points of the picture."""
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline class="{style}" points="{line}"/>'


def text(x: float, y: float, content: str, anchor: str = "start") -> str:
    """Text at a point of the picture, with special characters escaped."""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(content)}</text>'


def whisker(area: Area, x: Axis, y: Axis, at: float, ends: tuple[float, float], series: int) -> str:
    """An interval around a point of a series."""
    (left, low), (_, high) = (area.place(x, y, (at, end)) for end in ends)
    return f'<line class="s{series}" x1="{left:.1f}" y1="{low:.1f}" x2="{left:.1f}" y2="{high:.1f}"/>'


def band(area: Area, x: Axis, y: Axis, ends: Sequence[tuple[float, float, float]], series: int) -> str:
    """The intervals along a series as one surface: at each x the lower and the upper end."""
    line = [(at, low) for at, low, _ in ends] + [(at, high) for at, _, high in reversed(ends)]
    points = " ".join(f"{px:.1f},{py:.1f}" for px, py in (area.place(x, y, point) for point in line))
    return f'<polygon class="s{series} band" points="{points}"/>'


def bar(x: float, y: float, width: float, height: float, series: int = 0) -> str:
    """A filled rectangle in a series' colour."""
    return f'<rect class="s{series}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"/>'


def dot(x: float, y: float, radius: float, series: int = 0) -> str:
    """A filled circle in a series' colour."""
    return f'<circle class="s{series}" cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}"/>'


def legend(left: float, top: float, names: Sequence[str]) -> str:
    """The series' names in their colours, in a row."""
    parts, at = [], left
    for number, name in enumerate(names):
        parts.append(f'<circle class="s{number}" cx="{at:.1f}" cy="{top - 4:.1f}" r="5"/>')
        parts.append(text(at + 10, top, name))
        at += 34 + 7.5 * len(name)
    return "\n".join(parts)


def picture(width: float, height: float, *parts: str) -> str:
    """The whole SVG file: its size in units of the picture, the style, and the given parts."""
    body = "\n".join(parts)
    view = f'viewBox="0 0 {width:g} {height:g}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {view}>\n<style>{STYLE}</style>\n{body}\n</svg>\n'
