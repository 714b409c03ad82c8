"""Stop a training, resume it, and find the very same parameters as if it had never been stopped."""

import jax
import numpy as np

import weft


def main() -> None:
    whole = weft.train("ppo", "CartPole-v1", steps=20_000, seed=3)

    stopped = weft.train("ppo", "CartPole-v1", steps=20_000, seed=3, callbacks=[lambda row: row["steps"] < 10_000])
    print(f"stopped at {stopped.summary['steps']:,} steps; a shell would say: weft resume {stopped.folder}")
    resumed = weft.load(stopped.folder).resume()

    same = jax.tree.map(np.array_equal, whole.policy.parameters, resumed.policy.parameters)
    print("every parameter is the same, bit for bit:", all(jax.tree.leaves(same)))


if __name__ == "__main__":
    main()
