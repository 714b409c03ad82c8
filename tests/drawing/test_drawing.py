"""Programs in words and as pictures."""

import re

import numpy as np
import pytest
from PIL import Image

import weft
from weft.drawing.folding import fold
from weft.errors import WeftError

SMALL = {"settings": {"network": {"hidden": [8]}}, "envs": 2}


def names(groups):
    return [group.name for group in groups]


def test_nodes_that_play_the_same_part_are_one_group():
    groups, links = fold(weft.graph("impala", actors=5, **SMALL))
    assert names(groups) == ["actors 0-4", "learner 0"]
    assert [(link.kind, names(link.senders), names(link.receivers)) for link in links] == [
        ("mailbox", ["learner 0"], ["actors 0-4"]),
        ("queue", ["actors 0-4"], ["learner 0"]),
    ]
    assert [link.carries_experience for link in links] == [False, True]


def test_actors_of_different_learners_are_different_groups():
    groups, links = fold(weft.graph("impala", actors=5, graph={"learners": 2}, **SMALL))
    assert names(groups) == ["actors 0, 2, 4", "actors 1, 3", "learner 0", "learner 1"]
    unrolls = [link for link in links if link.carries_experience]
    assert [(names(link.senders), names(link.receivers)) for link in unrolls] == [
        (["actors 0, 2, 4"], ["learner 0"]),
        (["actors 1, 3"], ["learner 1"]),
    ]


def test_channels_that_are_one_for_each_node_are_one_link():
    _, links = fold(weft.graph("sync", actors=3, **SMALL))
    assert {link.name: len(link.channels) for link in links} == {
        "parameters": 1,
        "commands": 3,
        "states": 3,
        "answers": 3,
    }


def test_the_words_say_who_sends_what_to_whom():
    text = str(weft.graph("a3c", actors=2, graph={"shards": 2}, **SMALL))
    assert text.startswith("a3c: 2 workers, 2 servers\n")
    assert re.search(r"gradients 0 +call +workers 0-1 +↔ +server 0 +[\d,]+ bytes, [\d,]+ back", text)
    assert re.search(r"state 1 +queue +server 0 +→ +server 1 +objects +blocks when full", text)
    assert re.search(r"workers 0-1 +made anew after a crash", text)


@pytest.mark.parametrize("topology", ["local", "sync", "impala", "a3c"])
def test_a_picture_shows_every_group_and_link(topology, tmp_path):
    program = weft.graph(topology, actors=1 if topology == "local" else 3, **SMALL)
    svg = program.draw(tmp_path / "graph.svg").read_text()
    groups, links = fold(program)
    for name in [*names(groups), *(link.name for link in links)]:
        assert f">{name}" in svg
    picture = np.asarray(Image.open(program.draw(tmp_path / "graph.png")).convert("L"))
    assert picture.std() > 5 and picture.shape[1] >= 1200


def test_other_kinds_of_pictures_are_refused(tmp_path):
    with pytest.raises(WeftError, match=r"\.svg or \.png, not as 'graph\.jpg'"):
        weft.graph("local", **SMALL).draw(tmp_path / "graph.jpg")
