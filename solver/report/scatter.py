"""A small scatter plot in plain text."""

from __future__ import annotations

import math
from collections.abc import Sequence

WIDTH, HEIGHT = 56, 12
_MARKS = "123456789abcdefghijklmnopqrstuvwxyz"
CROWD = "*"


def scatter(points: Sequence[tuple[float, float]], x_title: str, y_title: str) -> str:
    """Draw points on logarithmic axes, each under its number in the table.

    Parameters
    ----------
    points
        x and y, both positive; the first one is drawn as 1.
    x_title, y_title
        Names of the axes with their units.

    Returns
    -------
    Lines of text; ``*`` where several points fall on one cell. Empty without points.
    """
    if not points:
        return ""
    columns = _cells([x for x, _ in points], WIDTH)
    rows = _cells([y for _, y in points], HEIGHT)
    grid = [[" "] * WIDTH for _ in range(HEIGHT)]
    for number, (column, row) in enumerate(zip(columns, rows, strict=True)):
        mark = _MARKS[number] if number < len(_MARKS) else "+"
        grid[row][column] = mark if grid[row][column] == " " else CROWD
    xs, ys = [x for x, _ in points], [y for _, y in points]
    labels = {HEIGHT - 1: _label(max(ys)), 0: _label(min(ys))}
    margin = max(map(len, labels.values()))
    lines = [f"{y_title} (both axes logarithmic)"]
    for row in reversed(range(HEIGHT)):
        lines.append(f"{labels.get(row, ''):>{margin}} │{''.join(grid[row])}".rstrip())
    low, high = _label(min(xs)), _label(max(xs))
    lines.append(f"{'':>{margin}} └{'─' * WIDTH}")
    lines.append(f"{'':>{margin}}  {low}{high:>{WIDTH - len(low)}}")
    lines.append(f"{'':>{margin}}  {x_title:^{WIDTH}}".rstrip())
    return "\n".join(lines)


def _label(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"  # noqa: PLR2004


def _cells(values: Sequence[float], size: int) -> list[int]:
    """Return the cell of each value on a logarithmic axis of ``size`` cells."""
    logs = [math.log(value) if value > 0 else 0.0 for value in values]
    low, high = min(logs), max(logs)
    if high <= low:
        return [size // 2] * len(logs)
    return [round((x - low) / (high - low) * (size - 1)) for x in logs]
