import subprocess

import gymnasium
import imageio_ffmpeg
import numpy as np
import pytest
from PIL import Image

from weft.errors import WeftError
from weft.runs.video import record
from weft.types import Spaces, Timestep


class Ball:
    """Two environments with a ball that moves to the right; an episode is three actions."""

    name, number = "Ball", 2
    spaces = Spaces(gymnasium.spaces.Discrete(4), gymnasium.spaces.Discrete(1))

    def __init__(self, reset_at_once=False, picture=True, blank=False):
        self.reset_at_once, self.picture, self.blank = reset_at_once, picture, blank
        self.rendered = []

    def timestep(self, first):
        last = self.place == 3
        if last and self.reset_at_once:
            self.place, first, last = 0, True, False
        ones = np.ones(2, np.float32)
        return Timestep(np.full(2, self.place), ones, ones, np.full(2, first), np.full(2, last))

    def reset(self, seed):
        self.place = 0
        return self.timestep(first=True)

    def step(self, action):
        assert action.shape == (2,)
        self.place = (self.place + 1) % 4
        return self.timestep(first=self.place == 0)

    def render(self):
        if not self.picture:
            return None
        self.rendered.append(self.place)
        frame = np.full((65, 97, 3), 20, np.uint8)
        if not self.blank:
            frame[20:40, 20 * self.place : 20 * self.place + 20] = (250, 120, 0)
        return frame


def policy(timestep):
    return np.zeros(len(timestep.observation), np.int64)


def frames(path):
    if path.suffix == ".gif":
        with Image.open(path) as image:
            count = image.n_frames
            pictures = []
            for place in range(count):
                image.seek(place)
                pictures.append(np.asarray(image.convert("RGB")))
        return pictures
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error", "-i", path, "-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    content = subprocess.run(command, capture_output=True, check=True).stdout
    return list(np.frombuffer(content, np.uint8).reshape(-1, 64, 96, 3))


@pytest.mark.parametrize("ending", ["mp4", "gif"])
@pytest.mark.parametrize(("episodes", "places"), [(1, [0, 1, 2, 3]), (2, [0, 1, 2, 3, 0, 1, 2, 3])])
def test_whole_episodes_are_recorded(tmp_path, ending, episodes, places):
    environment = Ball()
    path = record(environment, policy, tmp_path / "videos" / f"ball.{ending}", episodes=episodes)
    assert environment.rendered == places
    pictures = frames(path)
    assert len(pictures) == len(places)
    for place, picture in zip(places, pictures, strict=True):
        ball = picture[25:35, 20 * place + 5 : 20 * place + 15].reshape(-1, 3).mean(0)
        np.testing.assert_allclose(ball, (250, 120, 0), atol=30)
    assert [item.name for item in path.parent.iterdir()] == [path.name]


def test_the_next_episode_is_left_out_where_resets_are_within_the_step(tmp_path):
    environment = Ball(reset_at_once=True)
    record(environment, policy, tmp_path / "ball.gif", episodes=2)
    assert environment.rendered == [0, 1, 2, 0, 1, 2]


def test_endless_episodes_end_after_the_steps_given(tmp_path):
    environment = Ball()
    record(environment, policy, tmp_path / "ball.gif", episodes=100, steps=5)
    assert len(environment.rendered) == 6


@pytest.mark.parametrize("ending", ["mp4", "gif"])
@pytest.mark.parametrize(
    ("environment", "sentence"),
    [(Ball(picture=False), "Ball gives no picture"), (Ball(blank=True), "Every picture of Ball is blank")],
)
def test_a_video_with_nothing_to_see_is_refused_and_not_left_behind(tmp_path, ending, environment, sentence):
    with pytest.raises(WeftError, match=sentence):
        record(environment, policy, tmp_path / f"ball.{ending}")
    assert list(tmp_path.iterdir()) == []


def test_other_endings_are_refused(tmp_path):
    with pytest.raises(WeftError, match=r"ends in .mp4 or .gif"):
        record(Ball(), policy, tmp_path / "ball.avi")


def test_what_the_encoder_says_is_passed_on(tmp_path, monkeypatch):
    monkeypatch.setattr(imageio_ffmpeg, "get_ffmpeg_exe", lambda: "false")
    with pytest.raises(WeftError, match="ffmpeg could not write"):
        record(Ball(), policy, tmp_path / "ball.mp4")
    assert list(tmp_path.iterdir()) == []
