"""sbx, Stable-Baselines3 on JAX, on CartPole-v1: prints one line of JSON."""

import sbx
from stable_baselines3_cartpole import main

if __name__ == "__main__":
    main(sbx, "sbx-rl")
