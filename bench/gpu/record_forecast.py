"""Records memory over time of the programs of forecast_programs.py under a cap, with marks of steps, on a card.

Usage: record_forecast.py FOLDER [--seconds 20] [--at-once 12] [--only NAME] [--tiny]

Each runs in a process of its own. Sizes, speeds and the cap are drawn from the name. `--tiny` needs no card.
"""

import argparse
import json
import os
import random
import threading
import time
import traceback

import torch
from forecast_programs import PROGRAMS, loss_of
from record_growth import INTERVAL, MIB, Nvml
from torch import nn


class Run:
    """A training loop under a cap, and what a scenario does to it."""

    def __init__(self, name, program, seconds, tiny):
        self.random = random.Random(name)
        self.program, self.seconds, self.tiny = program, seconds, tiny
        self.device = "cpu" if tiny else "cuda"
        self.begin = time.monotonic()
        self.marks, self.leak, self.capacity, self.count = [], None, None, 0
        self.kept = []
        make, self.data, batch, self.length = PROGRAMS[program]
        self.batch = 1 if tiny else max(1, round(batch * self.random.uniform(0.5, 1.2)))
        self.length = 32 if tiny else self.length
        self.pause = self.random.uniform(0.05, 0.25)
        torch.manual_seed(self.random.randrange(1000))
        self.model = make().to(self.device)
        kind = self.random.choice([torch.optim.AdamW, torch.optim.SGD])
        self.optimizer = kind(self.model.parameters(), lr=1e-4)

    @property
    def elapsed(self):
        return time.monotonic() - self.begin

    @property
    def going(self):
        return self.elapsed < self.seconds

    def mark(self, what):
        self.marks.append([round(self.elapsed, 3), what, self.count])

    def mib(self, amount):
        return torch.empty(
            int((0.01 if self.tiny else 1) * amount * MIB), dtype=torch.uint8, device=self.device
        )

    def given(self, batch=1.0, length=1.0):
        return self.data(
            max(1, int(self.batch * batch)), max(8, int(self.length * length)), self.device
        )

    def step(self, batch=1.0, length=1.0, before=None):
        self.mark("step")
        self.count += 1
        given = self.given(batch, length)
        self.optimizer.zero_grad(set_to_none=True)
        loss = loss_of(self.model, given)
        if before:
            before(loss)
        loss.backward()
        self.optimizer.step()
        time.sleep(self.pause * self.random.uniform(0.8, 1.2))
        return loss

    def evaluate(self, batch=2.0, steps=4):
        self.mark("evaluation")
        with torch.no_grad():
            for _ in range(steps):
                loss_of(self.model, self.given(batch))
                time.sleep(self.pause)

    def cap(self, seconds, share=1.0):
        """Two steps tell what work takes; the cap leaves room for growth of so many seconds. Answers MiB a second."""
        for _ in range(2):
            self.step(1.0, 1.0)
        peak = 64 * MIB if self.tiny else torch.cuda.max_memory_reserved()
        room = self.random.uniform(0.6, 3.0) * 1024
        self.capacity = int(peak * share + room * MIB)
        if not self.tiny:
            total = torch.cuda.get_device_properties(0).total_memory
            torch.cuda.set_per_process_memory_fraction(self.capacity / total)
        return room / seconds

    def leaks(self, rate):
        self.leak = {"from": round(self.elapsed, 3), "bytesPerSecond": int(rate * MIB)}

    @property
    def each(self):
        """About what a step lasts."""
        return self.pause + 0.02

    def keep(self, rate, seconds=None):
        """A result of each step is kept: so many MiB a second."""
        begin = self.elapsed
        while self.going and (seconds is None or self.elapsed - begin < seconds):
            self.step()
            self.kept.append(self.mib(rate * self.each))

    def work(self, seconds):
        begin = self.elapsed
        while self.going and self.elapsed - begin < seconds:
            self.step()


def end_of(r, low=7.0, high=30.0):
    return r.random.uniform(low, high)


def results_kept(r):
    rate = r.cap(end_of(r))
    r.work(r.random.uniform(0, 5))
    r.leaks(rate)
    r.keep(rate)


def graphs_kept(r):
    """losses.append(loss) with a graph that holds the batch's activations."""
    rate = r.cap(end_of(r, 9, 25))
    r.leaks(rate)
    while r.going:
        x = torch.empty(int(rate * r.each * MIB / 4 * (0.01 if r.tiny else 1)) + 1, device=r.device)
        r.kept.append((x.requires_grad_() * 1).sum())
        r.step()


def hooks(r):
    """A hook keeps a part of each output; after some steps, or never, the list is cleared."""
    rate = r.cap(end_of(r, 9, 25))
    every = r.random.choice([0, 25, 40])
    if not every:
        r.leaks(rate)
    while r.going:
        r.step()
        r.kept.append(r.mib(rate * r.each))
        if every and r.count % every == 0:
            r.kept.clear()


def buffer_fills(r):
    """A buffer that fills to a size that was chosen, below the cap."""
    rate = r.cap(end_of(r, 10, 14))
    r.keep(rate, r.random.uniform(5, 9))
    r.work(r.seconds)


def cache_of_keys(r):
    """Each key not seen before adds a result: misses grow rare."""
    r.cap(10)
    seen, keys = set(), r.random.randint(40, 300)
    size = r.random.uniform(2, 12)
    while r.going:
        for _ in range(6):
            key = min(int(keys * r.random.random() ** 1.5), keys)
            if key not in seen:
                seen.add(key)
                r.kept.append(r.mib(size))
        r.step()


def cache_doubles(r):
    """A table that doubles when it is full."""
    r.cap(10)
    table, rows, size = r.mib(16), 0, 16
    while r.going:
        rows += r.random.uniform(2, 8)
        if rows > size:
            size *= 2
            grown = r.mib(size)
            table = grown
        r.step()
    del table


def curriculum(r):
    r.cap(10, share=r.random.choice([0.7, 1.0, 1.4]))
    every, grow = r.random.randint(6, 18), r.random.uniform(1.12, 1.3)
    most = r.random.choice([2.0, 50.0])
    while r.going:
        r.step(length=min(most, grow ** (r.count // every)))


def batch_grows(r):
    r.cap(10, share=r.random.choice([0.7, 1.2, 2.0]))
    every, most = r.random.randint(8, 25), r.random.choice([3.0, 8.0])
    while r.going:
        r.step(batch=min(most, 1 + 0.25 * (r.count // every)))


def evaluations(r):
    r.cap(10, share=r.random.choice([1.5, 3.0]))
    every = r.random.randint(10, 30)
    while r.going:
        r.step()
        if r.count % every == 0:
            r.evaluate(r.random.choice([2.0, 3.0]))


def epochs(r, stays=0.0):
    rate = r.cap(8)
    seconds = r.random.uniform(3, 5.5)
    if stays:
        r.leaks(rate * stays)
    while r.going:
        r.mark("epoch")
        kept = []
        begin = r.elapsed
        while r.going and r.elapsed - begin < seconds:
            r.step()
            kept.append(r.mib(rate * r.each * (1 - stays)))
            if stays:
                r.kept.append(r.mib(rate * r.each * stays))


def epochs_that_leak(r):
    epochs(r, r.random.uniform(0.2, 0.5))


def conversation(r):
    """Keys and values are put together anew with each token; a new conversation begins at the end or at the cap."""
    rate = r.cap(end_of(r, 9, 22))
    bounded = r.random.random() < 0.5
    store = r.mib(8)
    while r.going:
        given = r.mib(rate * r.each)
        store = torch.cat([store, given])
        r.step(batch=0.25)
        if bounded and store.numel() > 0.35 * (r.capacity - 64 * MIB):
            store = r.mib(8)


def ragged(r):
    r.cap(10, share=2.0)
    spread = r.random.uniform(0.3, 0.7)
    while r.going:
        r.step(length=min(2.2, r.random.lognormvariate(-0.2, spread)))


def steady(r):
    r.cap(10)
    r.work(r.seconds)


def snapshots(r, most=10**9):
    """A copy of the weights now and then."""
    rate = r.cap(end_of(r, 9, 20))
    every = r.random.randint(6, 14)
    while r.going:
        r.step()
        if r.count % every == 0:
            r.kept.append(r.mib(rate * r.each * every))
            del r.kept[: max(0, len(r.kept) - most)]


def snapshots_bounded(r):
    snapshots(r, r.random.randint(3, 5))


def unrolled(r):
    """A state that is never detached: its graph grows by a step each time."""
    rate = r.cap(end_of(r, 9, 22))
    r.leaks(rate)
    rows = int(max(64, rate * r.each * MIB / 3 / 4 / 256 * (0.01 if r.tiny else 1)))
    cell = nn.Linear(256, 256, device=r.device)
    state = torch.zeros(rows, 256, device=r.device)
    while r.going:
        state = torch.tanh(cell(state))
        r.step()


def layers_thaw(r):
    """More and more layers are trained: gradients and optimizer states come in steps, and end."""
    r.cap(10)
    size = r.random.uniform(60, 200)
    stages = r.random.randint(3, 6)
    every = r.random.randint(10, 25)
    while r.going:
        r.step()
        if r.count % every == 0 and len(r.kept) < stages:
            r.kept.append(r.mib(size))


def queue_ahead(r):
    """A loader runs ahead of the training until its queue is full."""
    rate = r.cap(end_of(r, 10, 16))
    depth = r.random.randint(10, 30)
    while r.going:
        if len(r.kept) < depth:
            r.kept.append(r.mib(rate * r.each))
        elif r.kept:
            r.kept.pop(0)
        r.step()


def accelerating(r):
    rate = r.cap(end_of(r, 12, 26))
    power = r.random.uniform(1.02, 1.05)
    while r.going:
        r.step()
        r.kept.append(r.mib(0.2 * rate * r.each * power**r.count))


def late_leak(r):
    rate = r.cap(end_of(r, 6, 11))
    r.work(r.random.uniform(5, 9))
    r.leaks(rate)
    r.keep(rate)


def slow_leak(r):
    rate = r.cap(r.random.uniform(150, 400))
    r.leaks(rate)
    r.keep(rate)


def load_then_work(r):
    """Weights come in pieces, at a speed that changes, and end below the cap."""
    rate = r.cap(r.random.uniform(8, 12))
    seconds, begin = r.random.uniform(4, 8), r.elapsed
    while r.going and r.elapsed - begin < seconds:
        r.kept.append(r.mib(rate * 0.1 * r.random.choice([0.3, 1, 1.6])))
        time.sleep(0.1)
    r.work(r.seconds)


def one_large_batch(r):
    r.cap(10, share=1.2)
    at = r.random.uniform(5, 15)
    while r.going:
        r.step(batch=30.0 if r.elapsed > at else 1.0)


SCENARIOS = [
    results_kept, graphs_kept, hooks, buffer_fills, cache_of_keys, cache_doubles, curriculum, batch_grows,
    evaluations, epochs, epochs_that_leak, conversation, ragged, steady, snapshots, snapshots_bounded, unrolled,
    layers_thaw, queue_ahead, accelerating, late_leak, slow_leak, load_then_work, one_large_batch,
]  # fmt: skip


def record(function, number, program, given):
    scenario = function.__name__.replace("_", "-")
    name = f"{scenario}-{number}"
    if not given.tiny:
        torch.cuda.init()
    r = Run(name, program, given.seconds, given.tiny)
    rows, stop, nvml = [], threading.Event(), Nvml()

    def sample():
        due = 0
        while not stop.is_set():
            at = round(r.elapsed, 3)
            if given.tiny:
                own = sum(t.numel() for t in r.kept)
                rows.append([at, own, own, None])
            else:
                own = nvml.own_used(os.getpid())
                rows.append([at, torch.cuda.memory_allocated(), torch.cuda.memory_reserved(), own])
            due += 1
            stop.wait(max(0.0, due * INTERVAL - r.elapsed))

    r.begin = time.monotonic()
    sampler = threading.Thread(target=sample, daemon=True)
    sampler.start()
    ended, error = "completed", None
    try:
        function(r)
    except torch.cuda.OutOfMemoryError as caught:
        ended, error = "oom", str(caught)[:200]
    except BaseException as caught:
        ended, error = "error", "".join(traceback.format_exception(caught))[-1500:]
    at = round(r.elapsed, 3)
    stop.set()
    sampler.join()
    columns = ["seconds", "allocated", "reserved", "device_used"]
    if any(row[3] is None for row in rows):
        columns, rows = columns[:3], [row[:3] for row in rows]
    out = {
        "scenario": scenario, "variant": number, "program": program, "capacity": r.capacity, "ended": ended,
        "at": at, "leak": r.leak, "error": error, "marks": r.marks, "columns": columns, "rows": rows,
    }  # fmt: skip
    with open(os.path.join(given.folder, f"{name}.json"), "w") as file:
        json.dump(out, file, separators=(",", ":"))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--at-once", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--only")
    parser.add_argument("--tiny", action="store_true")
    given = parser.parse_args()
    os.makedirs(given.folder, exist_ok=True)
    programs = list(PROGRAMS)
    todo = [
        (function, number, programs[(5 * place + 7 * number) % len(programs)])
        for number in range(given.rounds)
        for place, function in enumerate(SCENARIOS)
        if given.only in (None, function.__name__)
    ]
    running = set()
    while todo or running:
        while todo and len(running) < given.at_once:
            job = todo.pop(0)
            pid = os.fork()
            if pid == 0:
                torch.set_num_threads(1)
                record(*job, given)
                os._exit(0)
            running.add(pid)
        pid, _ = os.wait()
        running.discard(pid)


if __name__ == "__main__":
    main()
