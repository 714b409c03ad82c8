"""Videos of a policy at work, refused rather than black."""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from weft.errors import WeftError, require
from weft.runs.files import disk_errors
from weft.types import Timestep, Tree

if TYPE_CHECKING:
    from weft.envs.base import Environment


def record(
    environment: Environment,
    policy: Callable[[Timestep], Tree],
    path: str | Path,
    *,
    episodes: int = 1,
    steps: int = 10_000,
    seed: int = 0,
    fps: int = 30,
) -> Path:
    """Write an mp4 or a gif, by the ending of ``path``, of the first of the environments under ``policy``.

    ``policy`` maps timesteps to actions [B, ...]. The video ends with the given number of episodes or after
    ``steps`` steps, whichever comes first. Returns ``path``.
    """
    path = Path(path)
    writers = {".mp4": _write_mp4, ".gif": _write_gif}
    if path.suffix not in writers:
        raise WeftError(f"A video ends in .mp4 or .gif, and {path} does not.")
    temporary = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            temporary.touch()
            writers[path.suffix](
                temporary, _seen(environment, _frames(environment, policy, episodes, steps, seed)), fps
            )
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
    return path


def _frames(
    environment: Environment, policy: Callable[[Timestep], Tree], episodes: int, steps: int, seed: int
) -> Iterator[np.ndarray]:
    """Yield a picture of every timestep of the first environment, [height, width, 3] uint8."""
    timestep, last = environment.reset(seed), False
    yield _picture(environment)
    for _ in range(steps):
        timestep = environment.step(policy(timestep))
        # Environments that reset within the step show the next episode already; its picture is not of the one ended.
        reset_at_once = bool(timestep.first[0]) and not last
        last = bool(timestep.last[0])
        episodes -= last or reset_at_once
        if episodes or last:
            yield _picture(environment)
        if not episodes:
            return


def _picture(environment: Environment) -> np.ndarray:
    picture = environment.render()
    if picture is None:
        raise WeftError(f"{environment.name} gives no picture, so that there is nothing to record.")
    return picture


def _seen(environment: Environment, frames: Iterator[np.ndarray]) -> Iterator[np.ndarray]:
    """Pass the frames on, and refuse them at the end if there was never anything to see."""
    blank = True
    for frame in frames:
        blank = blank and bool((frame == frame[0, 0]).all())
        yield frame
    if blank:
        raise WeftError(f"Every picture of {environment.name} is blank, so that there is nothing to record.")


def _write_mp4(path: Path, frames: Iterator[np.ndarray], fps: int) -> None:
    """Encode as H.264, which wants even sides: an odd one loses a row or a column.

    imageio's own writer is not used, for it forks, which a process with JAX's threads must not.
    """
    program = require("imageio_ffmpeg", "video", "Writing an mp4").get_ffmpeg_exe()
    first = next(frames)
    height, width = (side // 2 * 2 for side in first.shape[:2])
    taken = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", str(fps), "-i", "-"]
    given = ["-c:v", "libx264", "-pix_fmt", "yuv420p", "-movflags", "+faststart", str(path)]
    command = [program, "-v", "error", "-y", *taken, *given]
    with tempfile.TemporaryFile() as said, subprocess.Popen(command, stdin=subprocess.PIPE, stderr=said) as encoder:
        assert encoder.stdin is not None
        with contextlib.suppress(BrokenPipeError), encoder.stdin:
            for frame in itertools.chain([first], frames):
                encoder.stdin.write(np.ascontiguousarray(frame[:height, :width]).data)
        if encoder.wait():
            said.seek(0)
            reason = said.read().decode(errors="replace").strip().splitlines()
            raise WeftError(f"ffmpeg could not write {path}: {reason[-1] if reason else 'it gave no reason'}.")


def _write_gif(path: Path, frames: Iterator[np.ndarray], fps: int) -> None:
    from PIL import Image

    images = (Image.fromarray(frame) for frame in frames)
    next(images).save(path, save_all=True, append_images=images, duration=1000 / fps, loop=0)
