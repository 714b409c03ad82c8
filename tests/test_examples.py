"""Every script in examples/ runs, and prints what it promises."""

import runpy
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "examples"
SAYS = {
    "architectures.py": "a3c ",
    "callbacks.py": "stopped after",
    "compare_seeds.py": "clip.png",
    "own_algorithm.py": "mean return",
    "own_environment.py": "corridor.gif",
    "own_network.py": "mean return",
    "recurrent.py": "action",
    "replay_tables.py": "served by Pattern",
    "resume.py": "bit for bit: True",
    "train_ppo.py": "played by hand",
    "use_policy.py": "five values",
}


@pytest.mark.parametrize("name", sorted(path.name for path in FOLDER.glob("*.py")))
def test_example_runs(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(FOLDER / name), run_name="__main__")
    assert SAYS[name] in capsys.readouterr().out
