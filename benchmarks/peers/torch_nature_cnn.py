"""PyTorch's side of ``nature_cnn.py``: answers each line ``LAYOUT KIND BATCH REPEATS`` with a line of seconds."""

import json
import sys
import time

import torch
from torch import nn


class Network(nn.Module):
    """The Nature CNN with a policy and a value head."""

    def __init__(self) -> None:
        super().__init__()
        self.torso = nn.Sequential(
            *(nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(), nn.Conv2d(64, 64, 3), nn.ReLU()),
            *(nn.Flatten(), nn.Linear(3136, 512), nn.ReLU()),
        )
        self.policy = nn.Linear(512, 6)
        self.value = nn.Linear(512, 1)

    def forward(self, pixels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """[B, 4, 84, 84] -> logits [B, 6], values [B]."""
        features = self.torso(pixels.float() / 255)
        return self.policy(features), self.value(features)[:, 0]


def work(layout: str, kind: str, batch: int):
    """Return a function that takes one training step or computes actions for one batch."""
    memory_format = {"nchw": torch.contiguous_format, "nhwc": torch.channels_last}[layout]
    network = Network().to(memory_format=memory_format)
    optimiser = torch.optim.Adam(network.parameters(), lr=2.5e-4)
    pixels = torch.randint(0, 256, (batch, 4, 84, 84), dtype=torch.uint8).to(memory_format=memory_format)
    actions, returns = torch.randint(0, 6, (batch,)), torch.randn(batch)

    def train() -> None:
        logits, values = network(pixels)
        loss = nn.functional.cross_entropy(logits, actions) + 0.5 * torch.mean((values - returns) ** 2)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

    @torch.inference_mode()
    def act() -> None:
        network(pixels)[0].argmax(-1)

    return {"train": train, "act": act}[kind]


def main() -> None:
    print(json.dumps({"torch": torch.__version__, "threads": torch.get_num_threads()}), flush=True)
    ready = {}
    for line in sys.stdin:
        *key, repeats = line.split()
        if tuple(key) not in ready:
            layout, kind, batch = key
            ready[tuple(key)] = work(layout, kind, int(batch))
            for _ in range(3):
                ready[tuple(key)]()
        seconds = []
        for _ in range(int(repeats)):
            began = time.perf_counter()
            ready[tuple(key)]()
            seconds.append(time.perf_counter() - began)
        print(json.dumps(seconds), flush=True)


if __name__ == "__main__":
    main()
