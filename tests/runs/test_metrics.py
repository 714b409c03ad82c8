import errno
import sys
import threading
import types

import jax.numpy as jnp
import numpy as np
import pandas
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.errors import WeftError
from weft.runs.metrics import Metrics, read, truncate
from weft.runs.sinks import Background, open_sinks


def write(folder, rows):
    with Metrics(folder) as metrics:
        for steps, row in rows:
            metrics.write(steps, row)


def test_rows_become_columns_that_pandas_reads(tmp_path):
    write(
        tmp_path,
        [(10, {"mean_return": np.float32(1.5), "updates": 1}), (20, {"loss": jnp.array(jnp.nan), "updates": 2})],
    )
    columns = read(tmp_path)
    assert columns["steps"].dtype == columns["updates"].dtype == np.int64
    np.testing.assert_array_equal(columns["mean_return"], [1.5, np.nan])
    np.testing.assert_array_equal(columns["loss"], [np.nan, np.nan])
    table = pandas.read_json(tmp_path / "metrics.jsonl", lines=True)
    pandas.testing.assert_frame_equal(table, pandas.DataFrame(columns), check_dtype=False)


def test_a_run_without_rows_has_no_columns(tmp_path):
    assert read(tmp_path) == {}
    truncate(tmp_path, 5)
    assert list(tmp_path.iterdir()) == []


@settings(deadline=None, max_examples=25)
@given(st.integers(1, 60))
def test_a_torn_last_line_is_left_out_and_written_over(tmp_path_factory, torn):
    folder = tmp_path_factory.mktemp("run")
    write(folder, [(1, {"loss": 0.5}), (2, {"loss": 0.25})])
    path = folder / "metrics.jsonl"
    content = path.read_bytes()
    path.write_bytes(content[: max(len(content) - torn, 0)])
    whole = read(folder).get("steps", np.array([])).tolist()
    write(folder, [(3, {"loss": 0.125})])
    assert read(folder)["steps"].tolist() == [*whole, 3]
    assert len(pandas.read_json(path, lines=True)) == len(whole) + 1


def test_a_resumed_run_has_no_doubled_rows(tmp_path):
    write(tmp_path, [(steps, {"loss": float(steps)}) for steps in (10, 20, 30)])
    truncate(tmp_path, after_steps=20)
    write(tmp_path, [(30, {"loss": 0.0})])
    assert read(tmp_path)["steps"].tolist() == [10, 20, 30]
    assert read(tmp_path)["loss"].tolist() == [10, 20, 0]


def test_a_full_disk_is_named(tmp_path):
    metrics = Metrics(tmp_path)
    metrics.close()

    class Full:
        def write(self, _):
            raise OSError(errno.ENOSPC, "no space")

    metrics._file = Full()
    with pytest.raises(WeftError, match=r"disk that holds .* is full"):
        metrics.write(1, {})


def scalars(folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder / "tensorboard")).Reload()
    return {name: [(event.step, event.value) for event in events.Scalars(name)] for name in events.Tags()["scalars"]}


@pytest.mark.filterwarnings("ignore")
def test_tensorboard_shows_a_resumed_run_once(tmp_path):
    for start in (0, 20):
        sink = open_sinks(["tensorboard"], tmp_path, {}, steps=start)
        for steps in (10, 20, 30):
            if steps > start:
                sink.write(steps, {"loss": steps / 4 + start})
        sink.close()
    assert scalars(tmp_path) == {"loss": [(10, 2.5), (20, 5.0), (30, 27.5)]}


class Recorder(types.SimpleNamespace):
    """Stands for a module: remembers every call."""

    def __init__(self, **attributes):
        super().__init__(calls=[], **attributes)

    def __getattr__(self, name):
        def call(*arguments, **named):
            self.calls.append((name, arguments, named))
            return self

        return call


def test_weights_and_biases(tmp_path, monkeypatch):
    wandb = Recorder()
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    sink = open_sinks(["wandb"], tmp_path, {"seed": 1})
    sink.write(7, {"loss": np.float32(0.5)})
    sink.close()
    (opened, _, named), logged, finished = wandb.calls
    assert opened == "init" and named["config"] == {"seed": 1} and named["id"] == tmp_path.name
    assert logged == ("log", ({"loss": 0.5},), {"step": 7})
    assert finished[0] == "finish"


def test_mlflow_continues_its_run(tmp_path, monkeypatch):
    mlflow = Recorder(info=types.SimpleNamespace(run_id="abc"))
    monkeypatch.setitem(sys.modules, "mlflow", mlflow)
    for _ in range(2):
        sink = open_sinks(["mlflow"], tmp_path, {"seed": 1, "ppo": {"clip": 0.1}})
        sink.write(7, {"loss": 0.5})
        sink.close()
    first, second = mlflow.calls[:5], mlflow.calls[5:]
    assert first[1] == ("start_run", (), {"run_name": tmp_path.name})
    assert first[2] == ("log_params", ({"seed": 1, "ppo.clip": 0.1},), {})
    assert first[3] == ("log_metrics", ({"loss": 0.5},), {"step": 7, "run_id": "abc"})
    assert second[1] == ("start_run", (), {"run_id": "abc"})
    assert second[-1][0] == "end_run"


@pytest.mark.parametrize("name", ["wandb", "mlflow"])
def test_a_missing_extra_is_named(tmp_path, monkeypatch, name):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(WeftError, match=rf"weft\[{name}\]"):
        open_sinks([name], tmp_path, {})


def test_an_unknown_sink_is_refused(tmp_path):
    with pytest.raises(WeftError, match="did you mean tensorboard"):
        open_sinks(["tensorbord"], tmp_path, {})


class Memory:
    def __init__(self, error=None):
        self.rows, self.error = [], error

    def write(self, steps, metrics):
        if self.error:
            raise self.error
        self.rows.append((steps, metrics, threading.current_thread()))

    def close(self):
        self.rows.append("closed")


def test_a_failing_sink_is_reported_once_and_stops_nobody():
    warnings = []
    good = Memory()
    background = Background([Memory(ConnectionError("no network")), good], warn=warnings.append)
    for steps in range(3):
        background.write(steps, {})
    background.close()
    assert [row[0] for row in good.rows[:-1]] == [0, 1, 2] and good.rows[-1] == "closed"
    assert all(row[2] is not threading.main_thread() for row in good.rows[:-1])
    assert warnings == ["Memory failed and is left out: no network"]
