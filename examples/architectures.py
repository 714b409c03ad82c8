"""Train the same algorithm in several architectures, and see who waited for whom."""

import weft

ARCHITECTURES = {
    "local": {},
    "sync": {"actors": 2},
    "impala": {"actors": 2},
    "a3c": {"actors": 2},
}


def main() -> None:
    print(weft.graph("impala", "appo", actors=2))  # .draw("graph.svg") draws it
    for topology, options in ARCHITECTURES.items():
        run = weft.train(
            "appo",
            "CartPole-v1",
            topology=topology,
            runtime="inline" if topology == "local" else "threads",  # "processes" for environments in Python
            steps=8_000,
            progress=False,
            **options,
        )
        waited = {name: value[-1] for name, value in run.metrics.items() if name.startswith("wait_")}
        print(topology, f"{run.summary['steps_per_second']:,.0f} steps/s", waited)


if __name__ == "__main__":
    main()
