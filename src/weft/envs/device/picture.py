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
        (start_x, start_y), (end_x, end_y) = np.asarray(start), np.asarray(end)
        along_x, along_y = end_x - start_x, end_y - start_y
        squared_length = max(along_x**2 + along_y**2, 1e-12)
        share = ((self.x - start_x) * along_x + (self.y - start_y) * along_y) / squared_length
        share = np.clip(share, 0, 1)
        distance = np.hypot(self.x - start_x - share * along_x, self.y - start_y - share * along_y)
        self.fill(width / 2 - distance, colour)

    def fill(self, depth: np.ndarray, colour: str) -> None:
        """Fill where ``depth``, the signed distance [height, width] into a shape, is positive; edges are smoothed."""
        cover = np.clip(depth / self._pixel + 0.5, 0, 1)[..., None]
        self._image += cover * (np.array(COLOURS[colour]) - self._image)

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
