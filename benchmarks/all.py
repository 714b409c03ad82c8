"""Run every benchmark with its defaults, one after the other: about two hours on 2 cores."""

import subprocess
import sys

import measuring

SCRIPTS = (
    "startup.py",
    "nature_cnn.py",
    "channels.py",
    "peers.py",
    "slow_environments.py",
    "lag.py",
    "impala_cartpole.py",
    "pong.py",
    "cliff_walk.py",
    "replay.py",
    "learning.py",
)

for script in SCRIPTS:
    print(f"\n== {script}", flush=True)
    subprocess.run([sys.executable, measuring.HERE / script], check=True)
