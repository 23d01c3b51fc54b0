"""Records memory over time of small programs on a GPU, each in a process of its own under a cap.

Usage: record_growth.py FOLDER [--seconds 56] [--draw SEED] [--first 4] [--tiny]

Two waves: variant 0 of every program at the same time, then variant 1. With `--draw` sizes and speed
of each program are drawn at random around those written here, for series that were never seen; they
are numbered from `--first`. `--tiny` runs without a GPU, to try the script out.
"""

import argparse
import ctypes
import gc
import json
import math
import os
import random
import sys
import threading
import time
import traceback
from functools import partial

import torch
from torch import nn

MIB = 2**20
GIB = 2**30
INTERVAL = 0.1


class Nvml:
    """What the driver counts for this process; unknown where it shows other process ids."""

    def __init__(self):
        self.handle = None
        try:
            self.lib = ctypes.CDLL("libnvidia-ml.so.1")
            handle = ctypes.c_void_p()
            started = self.lib.nvmlInit_v2() == 0
            found = ctypes.byref(handle)
            if started and self.lib.nvmlDeviceGetHandleByIndex_v2(0, found) == 0:
                self.handle = handle
        except OSError:
            pass

    def device_used(self):
        if self.handle is None:
            return None
        info = (ctypes.c_uint64 * 3)()
        return info[2] if self.lib.nvmlDeviceGetMemoryInfo(self.handle, info) == 0 else None

    def own_used(self, pid):
        if self.handle is None:
            return None
        count = ctypes.c_uint(128)
        infos = (ctypes.c_uint64 * (128 * 3))()
        code = self.lib.nvmlDeviceGetComputeRunningProcesses_v3(
            self.handle, ctypes.byref(count), infos
        )
        if code != 0:
            return None
        for i in range(count.value):
            if infos[3 * i] & 0xFFFFFFFF == pid:
                used = infos[3 * i + 1]
                return None if used == 2**64 - 1 else used
        return None


class Program:
    """What a program needs: its device, its cap, its clock, and what it holds on to."""

    def __init__(self, name, variant, seconds, tiny, draw=None):
        self.name, self.variant, self.seconds, self.tiny = name, variant, seconds, tiny
        self.device = "cpu" if tiny else "cuda"
        self.random = random.Random(
            1000 * variant + len(name) if draw is None else f"{draw} {name}"
        )
        self.size = self.tempo = 1.0
        if draw is not None:
            self.size, self.tempo = self.random.uniform(0.7, 1.3), self.random.uniform(0.6, 1.5)
        self.unit = int((1024 if tiny else MIB) * self.size)
        self.kept = []
        self.leak = None
        self.capacity = None
        self.begin = time.monotonic()

    def cap(self, gib):
        self.capacity = int(gib * self.size * GIB)
        if not self.tiny:
            total = torch.cuda.get_device_properties(0).total_memory
            torch.cuda.set_per_process_memory_fraction(self.capacity / total)

    @property
    def elapsed(self):
        return time.monotonic() - self.begin

    @property
    def now(self):
        """The program's own time, which runs faster or slower than the clock."""
        return self.elapsed * self.tempo

    @property
    def going(self):
        return self.elapsed < self.seconds

    def mib(self, amount):
        return torch.empty(max(1, int(amount * self.unit)), dtype=torch.uint8, device=self.device)

    def leaks(self, mib_per_second, since=0.0):
        rate = mib_per_second * self.size * self.tempo
        self.leak = {"from": round(since / self.tempo, 3), "bytesPerSecond": int(rate * MIB)}

    def wait(self, seconds):
        time.sleep(min(max(0.0, seconds / self.tempo), max(0.0, self.seconds - self.elapsed)))

    def pause(self, seconds):
        time.sleep(seconds / self.tempo)

    def work(self, mib=200, seconds=0.08):
        """One step: activations build up in pieces and are let go."""
        pieces = []
        for _ in range(8):
            pieces.append(self.mib(mib / 8 * self.random.uniform(0.9, 1.1)))
            self.pause(seconds / 16)
        while pieces:
            pieces.pop()
            self.pause(seconds / 16)

    def keep_up(self, target_mib, piece):
        """Holds on to pieces until as much is held as there should be by now."""
        while sum(t.numel() for t in self.kept) < target_mib * self.unit:
            self.kept.append(self.mib(piece))


def model_steps(p, model, batch, loss, sleep=0.15, change=None):
    model = model.to(p.device)
    optimizer = torch.optim.AdamW(model.parameters())
    step = 0
    while p.going:
        inputs = batch(step)
        optimizer.zero_grad(set_to_none=True)
        loss(model, inputs).backward()
        optimizer.step()
        if change:
            change(step)
        step += 1
        p.pause(sleep)


def decoder(width, layers, vocabulary):
    layer = nn.TransformerEncoderLayer(
        width, width // 64, 4 * width, batch_first=True, norm_first=True
    )
    return nn.Sequential(
        nn.Embedding(vocabulary, width),
        nn.TransformerEncoder(layer, layers, enable_nested_tensor=False),
        nn.Linear(width, vocabulary),
    )


def text_loss(model, tokens):
    out = model(tokens)
    return nn.functional.cross_entropy(out.flatten(0, 1), tokens.flatten())


def text_start(p):
    p.cap(10)
    width, layers, batch, length = [(768, 8, 6, 512), (1024, 6, 4, 640)][p.variant]
    if p.tiny:
        width, layers, batch, length = 64, 2, 2, 16
    p.wait([3, 6][p.variant])
    model = decoder(width, layers, 16000)
    model_steps(
        p, model, lambda _: torch.randint(0, 16000, (batch, length), device=p.device), text_loss
    )


def image_start(p):
    p.cap(10)
    import torchvision

    names = ["resnet50", "convnext_tiny"]
    model = getattr(torchvision.models, names[p.variant])(weights=None)
    batch, side = ([32, 24][p.variant], 224) if not p.tiny else (2, 32)
    p.wait([5, 2][p.variant])

    def loss(m, x):
        return m(x).square().mean()

    model_steps(p, model, lambda _: torch.randn(batch, 3, side, side, device=p.device), loss)


def lengths_start(p):
    """Sequences of different lengths: what is reserved grows with each new longest one."""
    p.cap(8)
    width, layers = (512, 6) if not p.tiny else (64, 1)
    model = decoder(width, layers, 8000)

    def batch(_):
        scale = [0.45, 0.7][p.variant]
        length = min(1024, max(16, int(180 * p.random.lognormvariate(0, scale))))
        return torch.randint(0, 8000, (6, 16 if p.tiny else length), device=p.device)

    model_steps(p, model, batch, text_loss, sleep=0.2)


def load_weights(p):
    """Weights in pieces of a layer, then inference."""
    gib, seconds = [(12, 16.0), (20, 22.0)][p.variant]
    p.cap(gib * 1.2)
    layers = [30, 44][p.variant]
    for _ in range(layers):
        for share in (0.3, 0.1, 0.1, 0.5):
            p.kept.append(p.mib(gib * 1024 / layers * share))
            slow = 1.0 if p.variant == 0 else p.random.choice([0.3, 0.5, 1.0, 2.2])
            p.wait(seconds / layers / 4 * slow)
    while p.going:
        p.work(300, 0.3)


def sawtooth(p, leak_mib=0.0):
    p.cap(4)
    period = [8.0, 12.0][p.variant]
    height = 2000.0
    if leak_mib:
        period = [6.0, 9.0][p.variant]
        height = 1400.0
        p.leaks(leak_mib / period)
    leaked = []
    while p.going:
        begin = p.now
        p.kept = []
        gc.collect()
        if p.variant == 1 and not p.tiny:
            torch.cuda.empty_cache()
        while p.going and p.now - begin < period:
            p.keep_up(height * (p.now - begin) / period, 20)
            p.work(120, 0.08)
        if leak_mib:
            leaked.append(p.mib(leak_mib))


def sawtooth_leak(p):
    sawtooth(p, [150.0, 110.0][p.variant])


def leak(p, mib_per_second, gib, piece, since=(0.0, 15.0), work=200):
    p.cap(gib)
    begin = since[p.variant]
    p.leaks(mib_per_second, begin)
    static = p.mib(300)
    while p.going:
        p.keep_up(mib_per_second * max(0.0, p.now - begin), piece)
        if work:
            p.work(work, 0.1)
        else:
            p.pause(0.02)
    del static


def leak_1(p):
    leak(p, 1, 4, [0.25, 2][p.variant])


def leak_16(p):
    leak(p, 16, 4, [1.5, 8][p.variant])


def leak_128(p):
    leak(p, [128, 96][p.variant], 6, [16, 64][p.variant])


def leak_1024(p):
    leak(
        p,
        [1024, 820][p.variant],
        [26, 20][p.variant],
        [64, 256][p.variant],
        since=(0.0, 12.0),
        work=[0, 400][p.variant],
    )


def leak_graph(p):
    """The usual mistake: losses are summed up with their graphs."""
    p.cap(4)
    p.leaks([40, 65][p.variant])
    width = 1024 if not p.tiny else 16
    model = nn.Sequential(*[nn.Sequential(nn.Linear(width, width), nn.GELU()) for _ in range(8)])
    model = model.to(p.device)
    optimizer = torch.optim.AdamW(model.parameters())
    total = 0.0
    rows = [120, 190][p.variant]
    while p.going:
        loss = (
            model(torch.randn(rows * (1 if p.tiny else 4), width, device=p.device)).square().mean()
        )
        optimizer.zero_grad()
        loss.backward(retain_graph=True)
        optimizer.step()
        total = total + loss
        p.kept.append(p.mib(0.5))
        p.pause(0.3)


def leak_late_oom(p):
    leak(
        p,
        [110, 150][p.variant],
        4,
        [5, 24][p.variant],
        since=(20.0, 28.0),
        work=[300, 500][p.variant],
    )


def leak_in_chunks(p):
    leak(p, [100, 90][p.variant], 4, [180, 90][p.variant], since=(2.0, 10.0))


def leak_two_rates(p):
    p.cap(4)
    first, second = [(60, 110), (130, 60)][p.variant]
    p.leaks(second)
    while p.going:
        t = p.now
        p.keep_up(300 + first * min(t, 15) + second * max(0.0, t - 15), 6)
        p.work(200, 0.1)


def fill(p, course, piece=12, work=80):
    """Fills to 85 % of the cap along a course from 0 to 1, then stops and works on."""
    p.cap(2.5)
    most = 0.85 * 2560 - work * 1.2
    while p.going:
        p.keep_up(most * min(1.0, course(p.now)), piece)
        p.work(work, 0.08)


def fill_straight(p):
    seconds = [14.0, 24.0][p.variant]
    fill(p, lambda t: t / seconds)


def fill_levelling(p):
    tau = [6.0, 10.0][p.variant]
    fill(p, lambda t: 1 - math.exp(-t / tau))


def fill_root(p):
    seconds = [25.0, 40.0][p.variant]
    power = [0.5, 0.6][p.variant]
    fill(p, lambda t: (t / seconds) ** power)


def fill_slowing(p):
    """A straight piece that slows down evenly and stops."""
    seconds = [20.0, 32.0][p.variant]
    fill(p, lambda t: 1 - max(0.0, 1 - t / seconds) ** 2)


def fill_stages(p):
    """Stages of a load, each with half of what is left."""
    every = [3.0, 4.5][p.variant]
    fill(p, lambda t: 1 - 0.5 ** math.floor(t / every), piece=40)


def evaluation(p):
    p.cap(6)
    every = [12.0, 9.0][p.variant]
    static = p.mib(500)
    while p.going:
        if p.now % every > every - 2:
            p.work(2200, 0.5)
        else:
            p.work(400, 0.1)
    del static


def cache(p):
    """A cache of results: each key that was not seen yet adds one; misses grow rarer."""
    p.cap(6)
    keys, rate = [(400, 40), (3000, 60)][p.variant]
    seen = set()
    while p.going:
        for _ in range(int(rate / 10)):
            even = p.variant == 0
            key = p.random.randrange(keys) if even else int(keys / p.random.paretovariate(0.9))
            if key not in seen:
                seen.add(key)
                p.kept.append(p.mib([9, 4][p.variant]))
        p.work(150, 0.1)


def accelerating(p):
    p.cap(4)
    while p.going:
        t = p.now
        target = 300 + 1.9 * t * t if p.variant == 0 else 150 * 2 ** (t / 9)
        p.keep_up(target, 8)
        p.work(150, 0.1)


def generation(p):
    """Requests: a cache of keys and values grows with each token and is dropped at the end."""
    p.cap(6)
    static = p.mib(1200)
    while p.going:
        tokens = p.random.randint(*[(20, 90), (60, 160)][p.variant])
        rows = []
        for _ in range(tokens):
            if not p.going:
                break
            rows.append(p.mib(p.random.choice([10, 12])))
            p.work(60, 0.05)
    del static


def batch_ramp(p):
    """A schedule that raises the batch to its final size."""
    p.cap(6)
    every, count = [(8.0, 4), (4.0, 9)][p.variant]
    static = p.mib(700)
    while p.going:
        stage = min(count, int(p.now / every))
        p.work(300 + 2400 * stage / count, 0.2)
    del static


PROGRAMS = [
    text_start,
    image_start,
    lengths_start,
    load_weights,
    sawtooth,
    sawtooth_leak,
    leak_1,
    leak_16,
    leak_128,
    leak_1024,
    leak_graph,
    leak_late_oom,
    leak_in_chunks,
    leak_two_rates,
    fill_straight,
    fill_levelling,
    fill_root,
    fill_slowing,
    fill_stages,
    evaluation,
    cache,
    accelerating,
    generation,
    batch_ramp,
]


def record(function, variant, given):
    seconds, tiny, folder = given.seconds, given.tiny, given.folder
    number = given.first + variant
    name = f"{function.__name__.replace('_', '-')}-{number}"
    p = Program(name, variant, seconds, tiny, given.draw)
    rows, stop = [], threading.Event()
    nvml = Nvml()

    def sample():
        due = 0
        while not stop.is_set():
            if tiny:
                own = sum(t.numel() for t in p.kept)
                rows.append([round(p.elapsed, 3), own, own, None])
            else:
                own = nvml.own_used(os.getpid())
                at = round(p.elapsed, 3)
                rows.append([at, torch.cuda.memory_allocated(), torch.cuda.memory_reserved(), own])
            due += 1
            stop.wait(max(0.0, due * INTERVAL - p.elapsed))

    if not tiny:
        torch.cuda.init()
        torch.zeros(1, device="cuda")
    p.begin = time.monotonic()
    sampler = threading.Thread(target=sample, daemon=True)
    sampler.start()
    ended, error = "completed", None
    try:
        function(p)
    except torch.cuda.OutOfMemoryError as caught:
        ended, error = "oom", str(caught)[:300]
    except BaseException as caught:
        ended, error = "error", "".join(traceback.format_exception(caught))[-1500:]
    at = round(p.elapsed, 3)
    stop.set()
    sampler.join()
    columns = ["seconds", "allocated", "reserved", "device_used"]
    if any(row[3] is None for row in rows):
        columns, rows = columns[:3], [row[:3] for row in rows]
    before, unique = -1.0, []
    for row in rows:
        if row[0] > before:
            unique.append(row)
            before = row[0]
    out = {
        "scenario": function.__name__.replace("_", "-"),
        "variant": number,
        "capacity": p.capacity,
        "ended": ended,
        "at": at,
        "leak": p.leak,
        "error": error,
        "columns": columns,
        "rows": unique,
    }
    with open(os.path.join(folder, f"{name}.json"), "w") as file:
        json.dump(out, file, separators=(",", ":"))
    peak = max(row[2] for row in unique) / GIB
    print(
        f"{name:22} {ended:10} at {at:6.1f} s, {len(unique):4} rows, reserved peak {peak:6.2f} GiB"
        f"{'  ' + error[-400:] if error and ended == 'error' else ''}",
        flush=True,
    )


def record_card(folder, name, seconds):
    nvml, rows, begin = Nvml(), [], time.monotonic()
    if nvml.handle is None:
        return
    while time.monotonic() - begin < seconds:
        rows.append([round(time.monotonic() - begin, 3), nvml.device_used()])
        time.sleep(INTERVAL)
    with open(os.path.join(folder, f"{name}.json"), "w") as file:
        json.dump(
            {
                "scenario": "card",
                "capacity": 139 * GIB,
                "ended": "completed",
                "at": rows[-1][0],
                "columns": ["seconds", "device_used"],
                "rows": rows,
            },
            file,
            separators=(",", ":"),
        )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--seconds", type=float, default=56)
    parser.add_argument("--draw", type=int)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    os.makedirs(given.folder, exist_ok=True)
    try:
        import torchvision  # noqa: F401  imported before the forks, so that it is imported once
    except ImportError:
        pass
    torch.set_num_threads(1)
    for variant in (0, 1):
        children = []
        jobs = [partial(record, f, variant, given) for f in PROGRAMS if given.only in f.__name__]
        jobs.append(
            partial(record_card, given.folder, f"card-{given.first + variant}", given.seconds)
        )
        for job in jobs:
            pid = os.fork()
            if pid == 0:
                try:
                    job()
                    sys.stdout.flush()
                finally:
                    os._exit(0)
            children.append(pid)
        for pid in children:
            os.waitpid(pid, 0)


if __name__ == "__main__":
    main()
