"""Small nodes of which test programs are made. No JAX here: a process that runs them must do without it."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

import numpy as np

from weft.program import Leaf, Program

ITEM = {"value": Leaf((8,), "float64"), "writer": Leaf((), "int64"), "version": Leaf((), "int64")}
NUMBER = {"value": Leaf((), "int64")}


class Source:
    """Sends 0, 1, 2, ... with its index and the version of the mailbox that it saw; misbehaves where it is told to."""

    def __init__(self, index, items, box=None, wrong=None, at=3, life=0):
        self.index, self.items, self.box, self.wrong, self.at, self.life = index, items, box, wrong, at, life

    async def run(self):
        number = 0
        while True:
            version = -1 if self.box is None else (await self.box.get())[0]
            slot = await self.items.reserve()
            slot["value"][:] = number + 1000 * self.life
            if self.wrong and number == self.at and (self.life == 0 or "always" in self.wrong):
                self.misbehave()
            slot["writer"][...], slot["version"][...] = self.index, version
            self.items.commit()
            number += 1

    def misbehave(self):
        if "raise" in self.wrong:
            raise ValueError("the environment is on fire")
        if "kill" in self.wrong:
            os.kill(os.getpid(), signal.SIGKILL)
        if "hang" in self.wrong:
            time.sleep(2.5)

    def close(self):
        pass


class Sink:
    """Reads items, posting a new version after each, and puts what it saw into ``seen``; a number of them, or until
    ``number(seen)``."""

    def __init__(self, items, box, number, seen):
        self.items, self.box, self.number, self.seen = items, box, number, seen

    async def run(self):
        if self.box is not None:
            await self.box.post((np.zeros(3),), 0)
        while not (self.number(self.seen) if callable(self.number) else len(self.seen) >= self.number):
            item = await self.items.get(patience=0.5)
            if item is None:
                continue
            assert (item["value"] == item["value"][0]).all()
            self.seen.append((int(item["writer"]), int(item["value"][0]), int(item["version"])))
            self.items.release()
            if self.box is not None:
                await self.box.post((np.full(3, float(len(self.seen))),), len(self.seen))

    def close(self):
        pass


def many_to_one(number, seen, sources=3, mailbox=True, full="block", wrong=None, capacity=2, restarts=True):
    """Sources 0, 1, ... into one sink; the second one misbehaves."""
    program = Program("many to one")
    items = program.queue("items", ITEM, capacity, full, weight=1)
    box = program.mailbox("parameters", (Leaf((3,), "float64"),)) if mailbox else None
    for index in range(sources):
        trouble = wrong if index == 1 else None
        program.add(f"source {index}", Source, index, items.into, box and box.out, trouble, restarts=restarts)
    program.main("sink", Sink, items.out, box and box.into, number, seen)
    return program


def someone_lived_again(seen):
    """The others count as far as 1000 too, if it takes the second one long enough to begin anew."""
    return bool(seen) and seen[-1][0] == 1 and seen[-1][1] >= 1000


def all_three_were_heard(seen):
    return len(seen) >= 600 and len({writer for writer, *_ in seen}) == 3


class Asker:
    """Asks for the double of 0, 1, 2, ... and sends on what it is told."""

    def __init__(self, index, call, answers, wrong=None, life=0):
        self.index, self.call, self.answers, self.wrong, self.life = index, call, answers, wrong, life

    async def run(self):
        for number in range(self.life * 1000, 10**6):
            await self.call.send({"value": number * 10 + self.index})
            if self.wrong and number == 3:
                raise ValueError("gone before the reply")
            reply = int((await self.call.receive())["value"])
            await self.answers.put({"value": reply - 2 * (number * 10 + self.index)})

    def close(self):
        pass


class Answerer:
    """Doubles what it is asked, in batches; its sizes are written to ``sizes``."""

    def __init__(self, call, number, patience, sizes=None):
        self.call, self.number, self.patience, self.sizes = call, number, patience, sizes

    async def run(self):
        while True:
            requests = await self.call.collect(self.number, self.patience, idle=0.2)
            if self.sizes is not None:
                self.sizes.append(len(requests))
            for request in requests:
                await self.call.reply(request, {"value": 2 * int(request.value["value"])})

    def close(self):
        pass


class Counter:
    """Reads numbers into ``seen``."""

    def __init__(self, numbers, number, seen):
        self.numbers, self.number, self.seen = numbers, number, seen

    async def run(self):
        while len(self.seen) < self.number:
            self.seen.append(int((await self.numbers.get())["value"]))
            self.numbers.release()

    def close(self):
        pass


class Telling:
    """Sends one object that ``make`` returns where it runs, again in each life, and waits."""

    def __init__(self, letters, make, crash=False, life=0):
        self.letters, self.make, self.crash, self.life = letters, make, crash, life

    async def run(self):
        if self.crash and self.life == 0:
            pieces = self.letters._pieces
            slot = await pieces.reserve()  # the first piece of a letter that is never finished
            for name, value in {"letter": 5, "begin": 0, "size": 10**6}.items():
                slot[name][...] = value
            pieces.commit()
            raise ValueError("in the middle of a letter")
        await self.letters.put(self.make())
        time.sleep(0)

    def close(self):
        pass


class Hearing:
    """Reads one object into ``heard``."""

    def __init__(self, letters, heard):
        self.letters, self.heard = letters, heard

    async def run(self):
        self.heard.append(await self.letters.get())
        self.letters.release()

    def close(self):
        pass


def about_this_process():
    """What a child can tell of itself."""
    return {
        "modules": [name for name in ("jax", "flax", "pytest", "ray") if name in sys.modules],
        "pid": os.getpid(),
        "thread": threading.current_thread().name,
        "cores": os.environ.get("NPROC"),
    }


def xla_threads():
    """Threads of this process once XLA has started on the CPU."""
    import jax

    jax.numpy.ones(3).block_until_ready()
    return len(os.listdir("/proc/self/task"))


def big_letter():
    return {"bytes": os.urandom(1) + b"x" * 700_000, "array": np.arange(100_000)}
