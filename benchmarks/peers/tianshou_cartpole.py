"""Tianshou on CartPole-v1: prints one line of JSON."""

import gymnasium
import torch
from clock import Clock, arguments
from tianshou.algorithm import DQN, PPO
from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
from tianshou.algorithm.modelfree.reinforce import ProbabilisticActorPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Collector, VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.trainer import OffPolicyTrainerParams, OnPolicyTrainerParams
from tianshou.utils.net.common import Net
from tianshou.utils.net.discrete import DiscreteActor, DiscreteCritic


def ppo(space: gymnasium.Space, actions: gymnasium.Space) -> PPO:
    def torso() -> Net:
        return Net(state_shape=space.shape, hidden_sizes=[64, 64], activation=torch.nn.Tanh)

    actor = DiscreteActor(preprocess_net=torso(), action_shape=actions.n, softmax_output=False)
    policy = ProbabilisticActorPolicy(
        actor=actor,
        dist_fn=lambda logits: torch.distributions.Categorical(logits=logits),
        action_space=actions,
        action_scaling=False,
        action_bound_method=None,
    )
    critic = DiscreteCritic(preprocess_net=torso())
    return PPO(policy=policy, critic=critic, optim=AdamOptimizerFactory(lr=2.5e-4), ent_coef=0.0, max_grad_norm=0.5)


def dqn(space: gymnasium.Space, actions: gymnasium.Space) -> DQN:
    net = Net(state_shape=space.shape, action_shape=actions.n, hidden_sizes=[64, 64])
    policy = DiscreteQLearningPolicy(model=net, action_space=actions, eps_training=0.1)
    optimiser = AdamOptimizerFactory(lr=5e-4)
    return DQN(policy=policy, optim=optimiser, target_update_freq=250, huber_loss_delta=1.0)


def main() -> None:
    torch.set_num_threads(1)  # faster than 2 for networks of this size
    setting, clock = arguments(), Clock()
    envs = DummyVectorEnv([lambda: gymnasium.make("CartPole-v1")] * setting.envs)
    make = {"ppo": ppo, "dqn": dqn}[setting.algorithm]
    algorithm = make(envs.observation_space[0], envs.action_space[0])
    update = algorithm.update
    capacity = 100_000 if setting.algorithm == "dqn" else 128 * setting.envs
    collector = Collector(algorithm, envs, VectorReplayBuffer(capacity, setting.envs), exploration_noise=True)
    collector.reset()

    def update_and_tell(*args, **options):
        result = update(*args, **options)
        clock.updated(collector.collect_step)
        return result

    algorithm.update = update_and_tell
    common = {
        "max_epochs": 1,
        "epoch_num_steps": setting.steps,
        "training_collector": collector,
        "verbose": False,
        "show_progress": False,
    }
    if setting.algorithm == "ppo":
        params = OnPolicyTrainerParams(
            **common,
            collection_step_num_env_steps=128 * setting.envs,
            update_step_num_repetitions=4,
            batch_size=128 * setting.envs // 4,
        )
    else:
        collector.collect(n_step=1_000, random=True)
        params = OffPolicyTrainerParams(**common, collection_step_num_env_steps=1, batch_size=128)
    algorithm.run_training(params)
    clock.report("tianshou", collector.collect_step)


if __name__ == "__main__":
    main()
