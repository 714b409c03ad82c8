"""Load a run from disk and use its policy: for one observation or many, deterministic or sampled, and for values."""

import numpy as np

import weft


def main() -> None:
    trained = weft.train("ppo", "CartPole-v1", steps=20_000)

    run = weft.load(trained.folder)
    policy = run.policy  # of the newest checkpoint; run.best_policy is that of the highest mean return
    observations = np.stack([policy.spaces.observation.sample() * 0 for _ in range(5)])
    print("one action:   ", policy.act(observations[0]))
    print("five actions: ", policy.act(observations))
    print("five samples: ", policy.act(observations, deterministic=False))
    print("five values:  ", policy.value(observations).round(1))

    rows = run.metrics  # columns of equal length; pandas.DataFrame(rows) is the table
    print("mean return over the run:", rows["mean_return"][:: len(rows["steps"]) // 5].round(0))


if __name__ == "__main__":
    main()
