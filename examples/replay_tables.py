"""A replay of your own: streams of steps go in, and what you declare of them comes out.

Steps are stored once; items refer to them. Here two tables share the steps of two environments: one serves 3-step
transitions by priority, the other each step once, in order.
"""

import gymnasium
import numpy as np

from weft.experience.limiters import queue, samples_per_insert
from weft.experience.patterns import Pattern, column
from weft.experience.priorities import Prioritised
from weft.experience.selectors import Fifo
from weft.experience.store import Store
from weft.experience.table import TableSettings
from weft.program import Leaf

DISCOUNT = 0.99
LAYOUT = {
    "observation": Leaf((4,), "float32"),
    "action": Leaf((), "int64"),
    "reward": Leaf((), "float32"),
    "discount": Leaf((), "float32"),
}
observation, action, reward, discount = map(column, LAYOUT)
TRANSITIONS = Pattern(
    {
        "observation": observation[-4],
        "action": action[-4],
        "reward": (reward[-4:-1] * discount[-4:-1].partial_products(exclusive=True)).sum(axis=0),
        "discount": discount[-4:-1].product(axis=0),
        "successor": observation[-1],
    }
)
STEPS = Pattern({"observation": observation[-1], "reward": reward[-1]})


def main() -> None:
    store = Store(
        LAYOUT,
        [
            # Each item is sampled 4 times on average; whoever is further ahead than 200 samples has to wait.
            TableSettings("transitions", 1_000, Prioritised(0.6), limiter=samples_per_insert(4, 50, 200)),
            TableSettings("steps", 100, Fifo(), limiter=queue(100), max_times_sampled=1),
        ],
        streams=2,
        reach=TRANSITIONS.span,
    )
    environments = gymnasium.make_vec("CartPole-v1", num_envs=2)
    seen, _ = environments.reset(seed=0)
    random = np.random.default_rng(0)
    for step in range(100):
        taken = random.integers(0, 2, 2)
        following, earned, ended, cut, _ = environments.step(taken)
        kept = np.where(ended | cut, 0.0, DISCOUNT).astype(np.float32)
        store.extend({"observation": seen, "action": taken, "reward": earned.astype(np.float32), "discount": kept})
        store.insert("steps", STEPS.span)
        if step >= TRANSITIONS.span - 1:
            store.insert("transitions", TRANSITIONS.span)
        store.sample("steps", 2, STEPS)
        if store.table("transitions").may_sample(8):
            batch, drawn, size = store.sample("transitions", 8, TRANSITIONS)
            store.update("transitions", drawn.keys, np.abs(batch["reward"]))
        seen = following
    environments.close()
    print(f"{size} transitions; a batch of successors is {batch['successor'].shape}, served by {TRANSITIONS}")


if __name__ == "__main__":
    main()
