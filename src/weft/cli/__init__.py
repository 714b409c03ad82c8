"""The ``weft`` command. Its own help, and the choice of a subcommand, need no other import, so that they are quick."""

from __future__ import annotations

import importlib
import os
import sys

COMMANDS = {
    "train": ("weft.cli.train:train", "train an algorithm in an environment"),
    "evaluate": ("weft.cli.commands:evaluate", "play whole episodes with a trained policy"),
    "resume": ("weft.cli.commands:resume", "continue a run that was stopped, or train it for longer"),
    "record": ("weft.cli.commands:record", "film a trained policy"),
    "plot": ("weft.cli.commands:plot", "draw the returns and the speed of one or several runs"),
    "replay-order": ("weft.cli.commands:replay_order", "repeat an asynchronous run bit for bit, in one thread"),
    "graph": ("weft.cli.graph:graph", "show the nodes of a topology and who sends what to whom"),
    "bench": ("weft.cli.bench:bench", "run a benchmark of the repository"),
    "list": ("weft.cli.commands:list_names", "list algorithms, environments, topologies or runtimes"),
    "show": ("weft.cli.commands:show", "show the settings of an algorithm or a topology and what they mean"),
}
"""Name -> where the function is that takes the remaining arguments, and what it does."""


def main() -> None:
    """Run one command line.

    Exit codes: 0 when it is done; 2 when there is something for the user to put right, which is said in one sentence;
    130 when Ctrl-C and 143 when SIGTERM ended it, after a training was saved and the command that resumes it printed.
    """
    from weft.errors import WeftError

    if "" not in sys.path:
        sys.path.insert(0, "")  # so that module:name finds the user's own code in the current folder
    try:
        _run(sys.argv[1:])
    except WeftError as error:
        print(f"weft: {error}", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or closing it at exit would complain again
        sys.exit(141)
    except KeyboardInterrupt:
        print("weft: interrupted.", file=sys.stderr)
        sys.exit(130)


def _run(arguments: list[str]) -> None:
    from weft import __version__
    from weft.allocation import keep_memory
    from weft.errors import unknown

    match arguments:
        case [] | ["help"] | ["-h" | "--help", *_]:
            print(_help())
        case ["--version"]:
            print(f"weft {__version__}")
        case [name, *rest]:
            if name not in COMMANDS:
                raise unknown("command", name, COMMANDS)
            keep_memory()
            module, _, function = COMMANDS[name][0].partition(":")
            getattr(importlib.import_module(module), function)(rest)


def _help() -> str:
    lines = [f"  {name:<12} {text}" for name, (_, text) in COMMANDS.items()]
    return "\n".join(
        [
            "usage: weft COMMAND ...",
            "",
            "Reinforcement learning on JAX: write an algorithm once, choose at launch how it is executed.",
            "",
            *lines,
            "",
            "Begin with:      weft train ppo CartPole-v1",
            "More on one:     weft COMMAND --help",
        ]
    )
