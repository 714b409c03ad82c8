"""Small pictures drawn in numpy: anti-aliased lines, discs and boards, without a window or a graphics library."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

COLOURS = {
    "paper": (247, 246, 242),
    "ink": (52, 58, 70),
    "grey": (205, 207, 210),
    "orange": (224, 142, 69),
    "blue": (74, 124, 178),
    "green": (96, 153, 102),
    "red": (196, 84, 77),
    "yellow": (232, 198, 96),
}

Cells = list[list[str | None]]
"""Rows of the colours of squares; None is empty."""


class Picture:
    """A canvas in world coordinates: x from ``left`` to ``right``, y upwards from ``bottom`` on the same scale."""

    def __init__(self, width: int, height: int, left: float, right: float, bottom: float) -> None:
        self._pixel = (right - left) / width
        self.x = left + (np.arange(width) + 0.5) * self._pixel
        self.y = bottom + (height - 0.5 - np.arange(height)[:, None]) * self._pixel
        self._image = np.full((height, width, 3), COLOURS["paper"], np.float64)

    def disc(self, centre: ArrayLike, radius: float, colour: str) -> None:
        """Fill a circle."""
        self.line(centre, centre, 2 * radius, colour)

    def line(self, start: ArrayLike, end: ArrayLike, width: float, colour: str) -> None:
        """Draw a straight line with round ends."""
        ends = np.array([start, end], np.float64)
        margin = width / 2 + self._pixel
        (left, bottom), (right, top) = ends.min(axis=0) - margin, ends.max(axis=0) + margin
        columns = slice(*np.searchsorted(self.x, (left, right)))
        rows = slice(*np.searchsorted(-self.y[:, 0], (-top, -bottom)))

        along = ends[1] - ends[0]
        x, y = self.x[columns] - ends[0, 0], self.y[rows] - ends[0, 1]
        share = np.clip((x * along[0] + y * along[1]) / max(along @ along, 1e-12), 0, 1)
        self.fill(width / 2 - np.hypot(x - share * along[0], y - share * along[1]), colour, (rows, columns))

    def fill(self, depth: np.ndarray, colour: str, window: tuple[slice, slice] = np.s_[:, :]) -> None:
        """Fill where ``depth``, the signed distance into a shape at each pixel of ``window``, is positive."""
        cover = np.clip(depth / self._pixel + 0.5, 0, 1)[..., None]
        self._image[window] += cover * (np.array(COLOURS[colour]) - self._image[window])

    def pixels(self) -> np.ndarray:
        """Return the picture, [height, width, 3] uint8."""
        return np.round(self._image).astype(np.uint8)


def board(cells: Cells, cell: int = 32) -> np.ndarray:
    """Draw a grid of squares of colours, [rows * cell, columns * cell, 3] uint8."""
    paint = np.array([[COLOURS[colour or "paper"] for colour in row] for row in cells], np.uint8)
    image = paint.repeat(cell, axis=0).repeat(cell, axis=1)
    edge = np.arange(image.shape[0]) % cell == 0, np.arange(image.shape[1]) % cell == 0
    image[edge[0]] = COLOURS["grey"]
    image[:, edge[1]] = COLOURS["grey"]
    return image
