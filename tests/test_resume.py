"""A run that was stopped, interrupted or killed and then resumed is the same as one that never was."""

import os
import random
import signal
import time

import numpy as np
import pytest

import weft
from weft.runs.checkpoint import Checkpoints
from whole_runs import FLAGS, PPO, assert_same_bits, kept

RECURRENT = {"network": {"hidden": [8], "recurrent": "gru", "memory_size": 4}}
STACKED = {"vectorization": "sync", "frame_stack": 2}
CASES = {
    "ppo": ("ppo", "CartPole-v1", {}),
    "dqn": ("dqn", "CartPole-v1", {}),
    "ppo-device": ("ppo", "device:CartPole-v1", {}),
    "dqn-device": ("dqn", "device:CartPole-v1", {}),
    "ppo-stacked": ("ppo", "CartPole-v1", {"env": STACKED}),
    "dqn-stacked": ("dqn", "CartPole-v1", {"env": STACKED}),
    "ppo-recurrent": ("ppo", "CartPole-v1", {"settings": RECURRENT}),
    "dqn-recurrent": ("dqn", "CartPole-v1", {"settings": {**RECURRENT, "sequence": 4}}),
}


def stop_at(steps):
    return lambda row: row["steps"] < steps


def without_times(summary):
    return {name: value for name, value in summary.items() if name not in ("seconds", "steps_per_second")}


def wait_for(condition, process):
    deadline = time.monotonic() + 120
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.002)


def newest(folder):
    """Steps of the newest checkpoint."""
    return max(Checkpoints(folder / "checkpoints").steps(), default=0)


@pytest.mark.parametrize("case", CASES)
def test_stopped_and_resumed_is_the_same_bit_for_bit(tiny, case):
    algorithm, environment, options = CASES[case]
    never = tiny(algorithm, environment, folder="never", **options)
    run = tiny(algorithm, environment, folder="stopped", callbacks=[stop_at(150)], **options)
    assert not run.summary["finished"] and 150 <= run.summary["steps"] < 200
    run = weft.load(run.folder).resume(progress=False)
    assert_same_bits(never.folder, run.folder)
    assert without_times(run.summary) == without_times(never.summary)
    for name in ("steps", "mean_return", "episodes", "loss", "updates"):
        np.testing.assert_array_equal(run.metrics[name], never.metrics[name])


def test_the_comparison_covers_everything_and_can_fail(tiny, finished):
    other = tiny(seed=1)
    assert np.array_equal(other.metrics["steps"], finished.metrics["steps"])
    with pytest.raises(AssertionError):
        assert_same_bits(other.folder, finished.folder)
    names = " ".join(name for name, _ in kept(finished.folder))
    for part in ("params", "statistics", "optimiser", "environment", "running_return", "episodes", "taken"):
        assert part in names
    names = " ".join(name for name, _ in kept(tiny("dqn", folder="replay").folder))
    for part in ("target", "replay", "random", "unlearned"):
        assert part in names


def test_killed_at_any_moment_and_resumed_is_the_same_bit_for_bit(tiny, command, tmp_path):
    options = ("--steps", 3_200, "--checkpoint-every", 160)
    process = command("train", "ppo", "CartPole-v1", "--folder", "killed", *FLAGS, *options)
    seed = time.time_ns()
    for resumed in (False, True):
        before = newest(tmp_path / "killed")
        wait_for(lambda before=before: newest(tmp_path / "killed") > before, process)
        time.sleep(random.Random(seed + resumed).uniform(0, 0.1))
        process.kill()
        process.communicate()
        if not resumed:
            assert not weft.load(tmp_path / "killed").summary["finished"]
            process = command("resume", "killed")
    never = tiny(folder="never", steps=3_200, checkpoint_every=160)
    run = weft.load(tmp_path / "killed").resume(progress=False)
    assert run.summary["finished"], seed
    assert_same_bits(never.folder, run.folder)
    np.testing.assert_array_equal(run.metrics["steps"], never.metrics["steps"])


def test_a_run_without_a_checkpoint_yet_begins_anew(tiny, finished, capfd):
    def fail(row):
        raise RuntimeError("killed, as it were")

    with pytest.raises(RuntimeError, match="as it were"):
        tiny(callbacks=[fail])
    folder = finished.folder.with_name("run")
    assert newest(folder) == 0 and not weft.load(folder).summary["finished"]
    run = weft.load(folder).resume()
    assert "There is no checkpoint yet: the run begins anew." in capfd.readouterr().out
    assert_same_bits(finished.folder, run.folder)
    np.testing.assert_array_equal(run.metrics["steps"], finished.metrics["steps"])


def test_a_finished_run_goes_on_when_given_more_steps(finished):
    before = finished.summary
    run = finished.resume(progress=False)
    assert without_times(run.summary) == without_times(before)
    assert run.summary["steps_per_second"] == before["steps_per_second"]
    assert list(run.metrics["steps"]) == list(range(32, 321, 32))
    weft.load(run.folder).resume(steps=640, progress=False)
    run = weft.load(run.folder)
    assert run.config.train.steps == run.summary["steps"] == 640 and run.summary["finished"]
    assert run.summary["seconds"] > before["seconds"] and run.summary["episodes"] > before["episodes"]
    assert list(run.metrics["steps"]) == list(range(32, 641, 32))


@pytest.mark.parametrize("steps", [0, -5, 100, 400.5])
def test_a_total_that_makes_no_sense_is_refused_and_changes_nothing(finished, steps):
    with pytest.raises(weft.WeftError, match=r"320 steps already|type int"):
        finished.resume(steps=steps, progress=False)
    assert finished.config.train.steps == weft.load(finished.folder).config.train.steps == 320
    assert finished.summary["finished"]


@pytest.mark.parametrize("part", ["learner.bin", "actor.bin", "environment.bin", "manifest.json"])
def test_a_damaged_newest_checkpoint_is_reported_and_the_one_before_used(finished, finished_once, part, capfd):
    checkpoint = max((finished.folder / "checkpoints").iterdir())
    file = checkpoint / part
    content = file.read_bytes()
    file.write_bytes(bytes([content[0] ^ 1]) + content[1:])
    run = finished.resume()
    assert f"{checkpoint.name} cannot be used" in capfd.readouterr().out
    assert_same_bits(finished_once.folder, run.folder)
    np.testing.assert_array_equal(run.metrics["steps"], finished_once.metrics["steps"])


@pytest.mark.parametrize("algorithm", ["ppo", "dqn"])
def test_an_environment_that_cannot_be_saved_begins_anew_and_says_so(tiny, algorithm, capfd):
    pytest.importorskip("envpool")
    run = tiny(algorithm, "envpool:CartPole-v1", callbacks=[stop_at(150)])
    run = weft.load(run.folder).resume()
    said = " ".join(capfd.readouterr().out.split())
    assert "envpool:CartPole-v1 cannot be saved: its episodes begin anew" in said
    assert run.summary["finished"] and run.summary["steps"] == 320
    assert np.diff(run.metrics["steps"]).min() > 0


def test_ctrl_c_saves_says_how_to_go_on_and_ends_the_command(command, tmp_path):
    """Meanwhile, no other process may write the folder."""
    folder, file = tmp_path / "a run", tmp_path / "a run" / "metrics.jsonl"
    process = command("train", "ppo", "CartPole-v1", "--folder", folder, *FLAGS, "--steps", 9_999_999)
    wait_for(lambda: file.exists() and file.stat().st_size, process)
    with pytest.raises(weft.WeftError, match=f"is being written by process {process.pid}"):
        weft.load(folder).resume(progress=False)
    process.send_signal(signal.SIGINT)
    output, error = process.communicate(timeout=60)
    assert process.returncode == 130, error
    assert f"Continue with: weft resume '{folder}'" in output
    assert "Traceback" not in error
    run = weft.load(folder)
    assert not run.summary["finished"] and run.summary["mean_return"]
    assert newest(folder) == run.summary["steps"] == run.metrics["steps"][-1]


@pytest.mark.parametrize(("number", "raised"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)])
def test_a_signal_takes_its_effect_once_all_is_saved(tmp_path, number, raised):
    def interrupt(row):
        os.kill(os.getpid(), number)

    options = {"steps": 320, "envs": 2, "settings": PPO, "progress": False}
    with pytest.raises(raised) as stopped:
        weft.train_seeds(2, "ppo", "CartPole-v1", folder=tmp_path / "seeds", callbacks=[interrupt], **options)
    assert raised is KeyboardInterrupt or stopped.value.code == 143
    assert [folder.name for folder in (tmp_path / "seeds").iterdir()] == ["seed-0"]
    assert newest(tmp_path / "seeds" / "seed-0") == 32
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
