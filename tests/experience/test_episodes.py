"""Returns and lengths of episodes as the raw episodes have them."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from streams import NUMBER, SCRIPTS, Episode, Place, Stream, reward_of, rows

from weft.experience.episodes import EpisodeStatistics

FORMS = pytest.mark.parametrize("same_step", [False, True], ids=["next_step", "same_step"])


def finished(stream: Stream, count: int) -> list[tuple[float, int]]:
    """Return and length of every episode that ends within ``count`` steps, in the order in which they end."""
    ends = []
    for index in range(NUMBER):
        clock = 0
        for episode in range(count):
            length = stream.episode(Place(index, episode, 0)).length
            clock += length
            total = sum(reward_of(Place(index, episode, step)) for step in range(1, length + 1))
            ends.append((clock, index, total, length))
            clock += not stream.same_step
    return [(total, length) for clock, _, total, length in sorted(ends) if clock <= count]


@FORMS
@settings(deadline=None, max_examples=30, derandomize=True)
@given(scripts=SCRIPTS)
def test_returns_and_lengths(same_step, scripts):
    stream, window = Stream(scripts, same_step), 5
    statistics = EpisodeStatistics(NUMBER, window)
    for row in rows(stream, 20):
        statistics.record(row.timestep, row.following)
    expected, report = finished(stream, 20), statistics.report()
    returns, lengths = zip(*expected[-window:], strict=True)
    assert report["episodes"] == len(expected)
    assert report["mean_return"] == pytest.approx(np.mean(returns))
    assert report["mean_length"] == pytest.approx(np.mean(lengths))


def test_no_means_before_an_episode_has_ended():
    assert EpisodeStatistics(NUMBER).report() == {"episodes": 0}


@FORMS
@pytest.mark.parametrize("restarted", [False, True])
def test_restored(same_step, restarted):
    scripts = [[Episode(5, True)], [Episode(3, False), Episode(4, True)]]
    recorded = list(rows(Stream(scripts, same_step), 20))
    original, restored = EpisodeStatistics(NUMBER), EpisodeStatistics(NUMBER)
    for row in recorded[:9]:
        original.record(row.timestep, row.following)
    restored.restore(pickle.loads(pickle.dumps(original.save())), episodes_restarted=restarted)
    assert restored.report() == original.report()
    if restarted:
        for row in rows(Stream([[Episode(2, True)]] * NUMBER, same_step), 2):
            restored.record(row.timestep, row.following)
        assert restored.report()["episodes"] == original.report()["episodes"] + NUMBER
        newest = np.array(restored.save()["recent"])[-NUMBER:]
        np.testing.assert_array_equal(newest, [[3, 2], [203, 2]])
        return
    for row in recorded[9:]:
        original.record(row.timestep, row.following)
        restored.record(row.timestep, row.following)
    assert restored.report() == original.report()
