"""Train two variants with several seeds each, and draw them with confidence bands."""

import weft


def main() -> None:
    runs = [
        run
        for clip in (0.1, 0.3)
        for run in weft.train_seeds(2, "ppo", "CartPole-v1", steps=12_000, settings={"clip": clip}, progress=False)
    ]
    for run in runs:
        print(run.config.settings.clip, run.config.train.seed, run.summary["mean_return"])
    print(weft.plot(runs, "clip.png"))


if __name__ == "__main__":
    main()
