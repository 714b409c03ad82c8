"""RLlib's IMPALA on CartPole-v1 until the mean return of 100 episodes is 450: prints one line of JSON.

Its own tuned settings for CartPole, with one runner of 8 environments.
"""

import argparse
import json
import time
from importlib.metadata import version

import ray
from ray.rllib.algorithms.impala import IMPALAConfig
from ray.rllib.connectors.env_to_module.mean_std_filter import MeanStdFilter
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

TARGET, MOST = 450.0, 2_000_000


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("seed", type=int)
    options = parser.parse_args()
    ray.init(num_cpus=4, include_dashboard=False, logging_level="ERROR")
    config = (
        IMPALAConfig()
        .environment("CartPole-v1")
        .env_runners(
            num_env_runners=1,
            num_envs_per_env_runner=8,
            env_to_module_connector=lambda env, spaces, device: MeanStdFilter(),
        )
        .learners(num_learners=0)
        .training(
            train_batch_size_per_learner=500,
            grad_clip=40.0,
            grad_clip_by="global_norm",
            lr=0.0005,
            vf_loss_coeff=0.05,
            entropy_coeff=0.0,
        )
        .rl_module(model_config=DefaultModelConfig(vf_share_layers=True))
        .reporting(min_time_s_per_iteration=1)
        .debugging(seed=options.seed)
    )
    algorithm = config.build_algo()
    began, steps, reached = time.perf_counter(), 0, {}
    first: tuple[float, int] | None = None
    while steps < MOST and not reached:
        runners = algorithm.train()["env_runners"]
        if "num_env_steps_sampled_lifetime" not in runners:  # the first iterations may be over before its runner is up
            continue
        now, steps = time.perf_counter(), int(runners["num_env_steps_sampled_lifetime"])
        first = first or (now, steps)
        if runners.get("episode_return_mean", 0.0) >= TARGET:
            reached = {"steps": steps, "seconds": now - began, "reached_at": time.time()}
    speed = (steps - first[1]) / (now - first[0])
    print(json.dumps({"version": version("ray"), "steps_per_second": round(speed, 1), **reached}))
    algorithm.stop()
    ray.shutdown()


if __name__ == "__main__":
    main()
