"""Run every benchmark with its defaults, one after the other: about an hour on 2 cores."""

import subprocess
import sys

import measuring

for script in ("startup.py", "nature_cnn.py", "peers.py", "learning.py"):
    print(f"\n== {script}", flush=True)
    subprocess.run([sys.executable, measuring.HERE / script], check=True)
