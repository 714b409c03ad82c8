"""Stable-Baselines3 on CartPole-v1: prints one line of JSON."""

import torch
from clock import Clock, arguments
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.env_util import make_vec_env

PPO = {"n_steps": 128, "n_epochs": 4, "learning_rate": 2.5e-4}
DQN = {
    "batch_size": 128,
    "buffer_size": 100_000,
    "learning_starts": 1_000,
    "train_freq": 1,
    "gradient_steps": 1,
    "target_update_interval": 250,
}


def timed(model: BaseAlgorithm, steps: int, package: str) -> None:
    """Train, with the clock running from the first update on."""
    clock, train = Clock(), model.train

    def train_and_tell(*args, **options) -> None:
        train(*args, **options)
        clock.updated(model.num_timesteps)

    model.train = train_and_tell
    model.learn(steps)
    clock.report(package, model.num_timesteps)


def main(library, package: str) -> None:
    torch.set_num_threads(1)  # faster than 2 for networks of this size
    setting = arguments()
    envs = make_vec_env("CartPole-v1", setting.envs, seed=0)
    options = PPO | {"batch_size": setting.envs * 128 // 4} if setting.algorithm == "ppo" else DQN
    algorithm = getattr(library, setting.algorithm.upper())
    model = algorithm("MlpPolicy", envs, seed=0, policy_kwargs={"net_arch": [64, 64]}, **options)
    timed(model, setting.steps, package)


if __name__ == "__main__":
    import stable_baselines3

    main(stable_baselines3, "stable-baselines3")
