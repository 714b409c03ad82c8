import numpy as np
import pytest
from PIL import Image

from weft.errors import WeftError
from weft.runs import plot as plotting
from weft.runs.files import write_atomically
from weft.runs.folder import write_config
from weft.runs.metrics import Metrics
from weft.runs.plot import plot


def run(folder, seed=0, algorithm="ppo", clip=0.2, rows=20, slope=1.0):
    folder.mkdir()
    identity = {"algorithm": algorithm, "environment": "CartPole-v1", "topology": "local", "runtime": "inline"}
    write_config(folder / "config.toml", {**identity, "seed": seed, "folder": str(folder), algorithm: {"clip": clip}})
    write_atomically(folder / "versions.json", '{"format": 1}')
    with Metrics(folder) as metrics:
        metrics.write(5, {"steps_per_second": 90.0})
        for steps in range(10, 10 * rows, 10):
            metrics.write(steps, {"mean_return": slope * steps, "steps_per_second": 100.0 + seed})
    return folder


@pytest.fixture
def figures(monkeypatch):
    """The figures that are drawn, to look inside."""
    from matplotlib.figure import Figure

    drawn = []
    save = Figure.savefig
    monkeypatch.setattr(Figure, "savefig", lambda figure, path: (drawn.append(figure), save(figure, path))[1])
    return drawn


def test_seeds_are_one_line_with_a_band_and_settings_tell_lines_apart(tmp_path, figures):
    runs = [run(tmp_path / f"a{seed}", seed, slope=1 + seed / 10) for seed in range(3)]
    runs += [run(tmp_path / "b", clip=0.1), run(tmp_path / "c", algorithm="dqn", clip=0.3)]
    output = plot(runs, tmp_path / "pictures" / "all.png")
    with Image.open(output) as picture:
        assert picture.width > 1000 and np.asarray(picture.convert("L")).std() > 5
    returns, speed = figures[0].axes
    labels = [line.get_label() for line in returns.lines]
    assert labels == ["ppo, clip 0.2 (3 seeds)", "ppo, clip 0.1", "dqn"]
    assert len(returns.collections) == len(speed.collections) == 1
    steps, mean = returns.lines[0].get_data()
    np.testing.assert_allclose(mean, 1.1 * steps)
    assert returns.get_xlabel() == speed.get_xlabel() == "agent steps"
    assert figures[0].get_suptitle() == "CartPole-v1"
    assert "95 % bootstrap interval" in figures[0].legends[0].get_title().get_text()


def test_a_single_run_needs_no_legend(tmp_path, figures):
    plot([run(tmp_path / "a")], tmp_path / "one.png")
    assert figures[0].get_suptitle() == "ppo on CartPole-v1" and not figures[0].legends
    assert np.isfinite(figures[0].axes[0].lines[0].get_ydata()).all()


def test_a_list_is_averaged_whatever_its_settings(tmp_path, figures):
    plot([[run(tmp_path / "a"), run(tmp_path / "b", clip=0.1, rows=10, slope=3.0)]], tmp_path / "list.png")
    (line,) = figures[0].axes[0].lines
    steps, mean = line.get_data()
    np.testing.assert_allclose(mean, 2 * steps)
    assert steps[-1] == 90


def test_the_interval_is_that_of_the_mean():
    seeds = np.random.default_rng(1).normal(size=(50, 1))
    low, high = plotting._interval(seeds)
    half = 1.96 * seeds.std() / np.sqrt(50)
    np.testing.assert_allclose([low[0], high[0]], [seeds.mean() - half, seeds.mean() + half], atol=0.05)


def test_what_cannot_be_plotted_is_said(tmp_path):
    with pytest.raises(WeftError, match="nothing to plot"):
        plot([], tmp_path / "x.png")
    with pytest.raises(WeftError, match="is not the folder of a run"):
        plot([tmp_path], tmp_path / "x.png")
    with pytest.raises(WeftError, match="no returns to plot yet"):
        plot([run(tmp_path / "empty", rows=0)], tmp_path / "x.png")
