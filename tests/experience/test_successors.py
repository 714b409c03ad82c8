"""Outputs at the true successor of every step, against evaluating observations one by one."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from gymnasium import spaces
from streams import NUMBER, Episode, Stream, rows

from weft.experience.kinds import Unrolls
from weft.experience.unrolls import UnrollRecorder
from weft.networks.network import NetworkSettings, build
from weft.networks.policy import action_values, value
from weft.networks.values import unroll_with_successors

LENGTH = 9
SCRIPTS = [[Episode(1, False), Episode(3, True), Episode(2, False)], [Episode(5, False), Episode(1, True)]]


@pytest.mark.parametrize("recurrent", [None, "gru", "lstm"])
def test_successors(recurrent):
    heads = {"value": value(), "values": action_values(2)}
    settings = NetworkSettings(hidden=(4,), memory_size=3, recurrent=recurrent)
    network = build(spaces.Box(-np.inf, np.inf, (3,)), heads, settings, shared=False)
    params = network.init(jax.random.key(0))
    apply, unroll = jax.jit(network.apply), jax.jit(lambda *inputs: unroll_with_successors(network, *inputs))
    for same_step in (False, True):
        recorder, memory = UnrollRecorder(Unrolls(LENGTH), NUMBER), network.memory(NUMBER)
        memory = jax.tree.map(lambda leaf: leaf + 0.5, memory)
        begun, here, successors, valid = memory, [], [], []
        for row in rows(Stream(SCRIPTS, same_step), LENGTH):
            recorder.record(row.timestep, row.action, row.extras, row.following)
            outputs, memory = apply(params, row.timestep.observation, memory, row.timestep.first)
            true = row.following.final if same_step else row.following.observation
            here.append(outputs)
            successors.append(apply(params, true, memory, np.zeros(NUMBER, bool))[0])
            valid.append(~row.timestep.last)
        outputs = unroll(params, recorder.finish(row.following, begun))
        for got, expected in zip(outputs, (here, successors), strict=True):
            assert set(got) == {"value", "values"}
            for name, array in got.items():
                one_by_one = np.stack([outputs[name] for outputs in expected])
                np.testing.assert_allclose(array[np.stack(valid)], one_by_one[np.stack(valid)], atol=1e-5)
