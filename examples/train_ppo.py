"""Train PPO, evaluate it, and let its policy act in a loop of your own."""

import gymnasium

import weft


def main() -> None:
    run = weft.train("ppo", "CartPole-v1", steps=50_000, seed=0, settings={"clip": 0.1})
    result = run.evaluate(episodes=20)
    print(f"mean return {result.mean_return:.0f} over {len(result.returns)} episodes; the run is in {run.folder}")

    environment = gymnasium.make("CartPole-v1")
    observation, _ = environment.reset(seed=1)
    total, over = 0.0, False
    while not over:
        observation, reward, terminated, truncated, _ = environment.step(run.policy.act(observation))
        total, over = total + float(reward), terminated or truncated
    environment.close()
    print(f"one more episode, played by hand: {total:.0f}")


if __name__ == "__main__":
    main()
