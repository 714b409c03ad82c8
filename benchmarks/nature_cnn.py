"""Training steps and policy calls of the Nature CNN on the CPU: weft, XLA's own convolutions, and PyTorch.

The network of Mnih et al. (2015) on 84 x 84 x 4 bytes with a policy and a value head, float32, Adam. The four sides
take turns, so that whatever else the machine does hits all of them; the figure is the median, with the fastest beside.

    python benchmarks/nature_cnn.py [--rounds 20]
"""

from __future__ import annotations

from weft.allocation import keep_memory  # isort: skip

keep_memory()  # before JAX is loaded, as every run does

import argparse
import functools
import json
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import flax
import jax
import jax.numpy as jnp
import measuring
import numpy as np
import optax
from flax import nnx

import weft
from weft.compilation import prepare_jax
from weft.networks.torsos import image_torso

CASES = [("train", 256, 2), ("train", 32, 5), ("act", 32, 20), ("act", 1, 50)]
"""What is measured: kind, batch, calls in a row."""


class XlaTorso(nnx.Module):
    """The same network with XLA's own convolutions."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        conv = functools.partial(nnx.Conv, padding="VALID", rngs=rngs)
        self.layers = nnx.List(
            [conv(4, 32, (8, 8), 4), conv(32, 64, (4, 4), 2), conv(64, 64, (3, 3), 1)],
        )
        self.linear = nnx.Linear(3136, 512, rngs=rngs)

    def __call__(self, pixels: jax.Array) -> jax.Array:
        """[B, 84, 84, 4] -> [B, 512]."""
        features = pixels.astype(jnp.float32) / 255
        for layer in self.layers:
            features = jax.nn.relu(layer(features))
        return jax.nn.relu(self.linear(features.reshape(len(features), -1)))


class Network(nnx.Module):
    """A torso with a policy and a value head."""

    def __init__(self, torso: nnx.Module, rngs: nnx.Rngs) -> None:
        self.torso = torso
        self.policy = nnx.Linear(512, 6, rngs=rngs)
        self.value = nnx.Linear(512, 1, rngs=rngs)

    def __call__(self, pixels: jax.Array) -> tuple[jax.Array, jax.Array]:
        """[B, 84, 84, 4] -> logits [B, 6], values [B]."""
        features = self.torso(pixels)
        return self.policy(features), self.value(features)[:, 0]


def jax_work(side: str, kind: str, batch: int) -> Callable[[], None]:
    """Return a function that takes one training step or computes actions for one batch."""
    rngs = nnx.Rngs(0)
    torso = image_torso((84, 84, 4), rngs=rngs, orthogonal=False) if side == "weft" else XlaTorso(rngs)
    graph, params = nnx.split(Network(torso, rngs))
    optimiser = optax.adam(2.5e-4)
    generator = np.random.default_rng(0)
    pixels = jnp.asarray(generator.integers(0, 256, (batch, 84, 84, 4), np.uint8))
    actions = jnp.asarray(generator.integers(0, 6, batch))
    returns = jnp.asarray(generator.normal(size=batch), jnp.float32)

    def loss(params: nnx.State) -> jax.Array:
        logits, values = nnx.merge(graph, params)(pixels)
        policy_loss = optax.softmax_cross_entropy_with_integer_labels(logits, actions).mean()
        return policy_loss + 0.5 * jnp.mean(jnp.square(values - returns))

    @functools.partial(jax.jit, donate_argnums=(0, 1))
    def step(params: nnx.State, state: optax.OptState) -> tuple[nnx.State, optax.OptState]:
        updates, state = optimiser.update(jax.grad(loss)(params), state)
        return optax.apply_updates(params, updates), state

    @jax.jit
    def greedy(params: nnx.State, pixels: jax.Array) -> jax.Array:
        return nnx.merge(graph, params)(pixels)[0].argmax(-1)

    now = params, optimiser.init(params)

    def train() -> None:
        nonlocal now
        now = jax.block_until_ready(step(*now))

    def act() -> None:
        jax.block_until_ready(greedy(now[0], pixels))

    return {"train": train, "act": act}[kind]


def timed(work: Callable[[], None], repeats: int) -> list[float]:
    seconds = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - began)
    return seconds


@contextmanager
def torch_sides() -> Iterator[tuple[dict[str, str], Callable[[str, str, int, int], list[float]]]]:
    """Start PyTorch in its own environment; yield its versions and how to measure a side there."""
    python = measuring.python_of("torch", [measuring.TORCH])
    script = measuring.HERE / "peers" / "torch_nature_cnn.py"
    with subprocess.Popen([python, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        requests, answers = process.stdin, process.stdout

        def measure(layout: str, kind: str, batch: int, repeats: int) -> list[float]:
            requests.write(f"{layout} {kind} {batch} {repeats}\n")
            requests.flush()
            return json.loads(answers.readline())

        yield json.loads(answers.readline()), measure
        requests.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20)
    rounds = parser.parse_args().rounds
    results, rows = [], []
    prepare_jax()  # as every run does
    with torch_sides() as (torch_versions, torch_timed):
        for kind, batch, repeats in CASES:
            ours = {side: jax_work(side, kind, batch) for side in ("weft", "xla")}
            for work in ours.values():
                timed(work, 3)
            seconds: dict[str, list[float]] = {side: [] for side in (*ours, "torch_nchw", "torch_nhwc")}
            for _ in range(rounds):
                for side, work in ours.items():
                    seconds[side] += timed(work, repeats)
                for layout in ("nchw", "nhwc"):
                    seconds[f"torch_{layout}"] += torch_timed(layout, kind, batch, repeats)
            median = {side: 1e3 * statistics.median(times) for side, times in seconds.items()}
            fastest = {side: 1e3 * min(times) for side, times in seconds.items()}
            ratios = {side: time / median["weft"] for side, time in median.items()}
            results.append(
                {"kind": kind, "batch": batch, "median_ms": median, "fastest_ms": fastest, "times_weft": ratios}
            )
            rows += [
                (f"{kind} {batch} {side}", f"{median[side]:.2f}", f"{fastest[side]:.2f}", f"{ratios[side]:.2f}")
                for side in seconds
            ]
    measuring.table(("case", "median ms", "fastest ms", "times weft"), rows)
    versions = {"weft": weft.__version__, "jax": jax.__version__, "flax": flax.__version__} | torch_versions
    measuring.save("nature_cnn", "Nature CNN on the CPU, milliseconds a call", {"versions": versions, "cases": results})


if __name__ == "__main__":
    main()
