"""What README.md tells people to type works, with fewer steps."""

import re
import runpy
import shlex
import sys
from pathlib import Path

import pytest

from weft import cli

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def shortened(text: str) -> str:
    """Return the text with a hundredth of every number of steps."""
    return re.sub(r"(steps[ =])([\d_]+)", lambda match: f"{match[1]}{int(match[2].replace('_', '')) // 100}", text)


def commands() -> list[str]:
    lines = [line for language, block in BLOCKS if language == "sh" for line in block.splitlines()]
    return [line for line in lines if line.startswith("weft ")]


def test_the_first_session_works(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    named = {"train", "evaluate", "record", "plot", "resume", "show", "graph", "replay-order"}
    assert {line.split()[1] for line in commands()} == named
    for line in commands():
        monkeypatch.setattr(sys, "argv", shlex.split(shortened(line)))
        cli.main()
    output = capsys.readouterr().out
    assert "mean return" in output and "--ppo.clip" in output and "4 actors" in output
    assert (tmp_path / "runs/first/video.gif").stat().st_size and (tmp_path / "runs/first/returns.png").stat().st_size


def test_the_python_session_works(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (script,) = (block for language, block in BLOCKS if language == "python")
    (tmp_path / "session.py").write_text(shortened(script))
    names = runpy.run_path("session.py")
    assert names["run"].summary["finished"] and names["run"].summary["steps"] >= 1500
    assert names["action"] in (0, 1) and len(names["rows"]["steps"])


def test_make_has_the_targets_named_in_the_readme():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"`make (\w+)`", README)) | set(re.findall(r"^make (\w+)", README, re.MULTILINE))
    assert targets >= {"train", "test"}
    assert targets <= set(re.findall(r"^(\w+):", makefile, re.MULTILINE))


def test_make_installs_what_the_first_session_needs():
    """CartPole's pictures and mp4 come with an extra, which this environment has but a newcomer's may not."""
    recipe = (ROOT / "Makefile").read_text(encoding="utf-8").partition("\n.venv/installed:")[2].partition("\n\n")[0]
    assert any(line.startswith("weft record") for line in commands()) and '".[video]"' in recipe


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document):
    for target in re.findall(r"\]\(([^)]+)\)", document.read_text(encoding="utf-8")):
        path, _, anchor = target.partition("#")
        file = (document.parent / path).resolve() if path else document
        assert file.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.*)", file.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}, target
