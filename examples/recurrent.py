"""Remember with a GRU what a single observation does not show: CartPole without velocities."""

import weft


def main() -> None:
    run = weft.train(
        "ppo",
        "CartPole-no-velocity",
        envs=16,
        steps=30_000,
        settings={"network": {"recurrent": "gru", "memory_size": 64}, "minibatches": 4},
    )
    print(f"mean return {run.evaluate(episodes=10).mean_return:.0f}")

    # In a loop of your own the policy keeps the memory between calls; reset() makes it forget.
    policy = run.policy
    policy.reset()
    for position, angle in [(0.0, 0.02), (0.01, 0.01), (0.02, -0.01)]:
        print("action", policy.act([position, angle]))


if __name__ == "__main__":
    main()
