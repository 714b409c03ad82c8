"""PufferLib on CartPole-v1 (PPO only): prints one line of JSON."""

import tempfile

import gymnasium
import numpy as np
import pufferlib.emulation
import pufferlib.vector
import torch
from clock import Clock, arguments
from pufferlib.pufferl import PuffeRL
from torch import nn

SETTINGS = {
    "env": "CartPole-v1",
    "seed": 0,
    "device": "cpu",
    "torch_deterministic": False,
    "cpu_offload": False,
    "use_rnn": False,
    "compile": False,
    "precision": "float32",
    "optimizer": "adam",
    "adam_beta1": 0.9,
    "adam_beta2": 0.999,
    "adam_eps": 1e-5,
    "learning_rate": 2.5e-4,
    "anneal_lr": True,
    "gamma": 0.99,
    "gae_lambda": 0.95,
    "clip_coef": 0.2,
    "vf_coef": 0.5,
    "vf_clip_coef": 0.2,
    "ent_coef": 0.0,
    "max_grad_norm": 0.5,
    "vtrace_rho_clip": 1.0,
    "vtrace_c_clip": 1.0,
    "prio_alpha": 0.0,
    "prio_beta0": 1.0,
    "update_epochs": 4,
    "bptt_horizon": 128,
    "batch_size": "auto",
    "max_minibatch_size": 1 << 20,
    "checkpoint_interval": 1 << 30,
}


class Policy(nn.Module):
    """Separate 64-64 tanh networks for policy and value."""

    def __init__(self) -> None:
        super().__init__()
        self.policy = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 2))
        self.value = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))

    def forward(self, observations: torch.Tensor, state: object = None) -> tuple[torch.Tensor, torch.Tensor]:
        """[B, 4] -> logits [B, 2], values [B, 1]."""
        return self.policy(observations), self.value(observations)

    forward_eval = forward


def environment(buf: object = None, seed: int = 0) -> pufferlib.emulation.GymnasiumPufferEnv:
    return pufferlib.emulation.GymnasiumPufferEnv(gymnasium.make("CartPole-v1"), buf=buf, seed=seed)


def main() -> None:
    torch.set_num_threads(1)  # faster than 2 for networks of this size
    setting, clock = arguments(), Clock()
    assert setting.algorithm == "ppo", "PufferLib has no DQN"
    np.random.seed(0)
    envs = pufferlib.vector.make(environment, backend=pufferlib.vector.Serial, num_envs=setting.envs)
    sizes = {"minibatch_size": setting.envs * 128 // 4, "total_timesteps": setting.steps}
    with tempfile.TemporaryDirectory() as folder:
        trainer = PuffeRL(SETTINGS | sizes | {"data_dir": folder}, envs, Policy())
        trainer.print_dashboard = lambda *args, **options: None
        while trainer.global_step < setting.steps:
            trainer.evaluate()
            trainer.train()
            clock.updated(trainer.global_step)
        clock.report("pufferlib", trainer.global_step)
        trainer.utilization.stop()


if __name__ == "__main__":
    main()
