"""All that is to be measured of trainers on a GPU, in one command that ends in time and keeps what it has.

Usage: card.py OUTPUT_FOLDER CARRIED_FOLDER [--seconds N] [--only LANE ...] [--tiny] [--list]
CARRIED_FOLDER is what carry.py made: packages, the command with its Node, nanoGPT. A lane whose part is not there is
skipped, and the result says so. First the lanes whose time counts run, one after another; then all others at once,
on the same card. OUTPUT_FOLDER/results.json is written again every few seconds; when the time is over, what still
runs is ended and the result says which. With --tiny everything is small and runs without a GPU.
"""

import argparse
import glob
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
PACKAGE = os.path.join(ROOT, "python", "plimsoll")
SAVE_SECONDS = 5.0


def parsed():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output")
    parser.add_argument("carried")
    parser.add_argument("--seconds", type=float, default=540.0)
    parser.add_argument("--only", nargs="+", default=[])
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--list", action="store_true")
    return parser.parse_args()


class Lane:
    """One program of this folder with its result; `needs` are parts of what is carried."""

    def __init__(self, name, words, needs=(), alone=False):
        self.name, self.words, self.needs, self.alone = name, words, needs, alone
        self.process = self.log = self.began = self.ended = None
        self.why = "not started"

    def start(self, folder, environment):
        self.began = time.monotonic()
        self.log = open(os.path.join(folder, f"{self.name}.log"), "w", encoding="utf-8")  # noqa: SIM115
        # A group of its own: when time is over, its programs end with it.
        self.process = subprocess.Popen(
            [sys.executable, *self.words],
            cwd=HERE,
            env=environment,
            stdout=self.log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self.why = "running"

    def look(self):
        """Whether it has ended."""
        if self.ended is not None:
            return True
        if self.process.poll() is None:
            return False
        self.ended = time.monotonic()
        self.why = "ended" if self.process.returncode == 0 else "failed"
        return True

    def stop(self, why):
        if self.process is None or self.look():
            return
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.ended, self.why = time.monotonic(), why


def result_of(lane, folder):
    found = {"lane": lane.name, "state": lane.why, "alone": lane.alone}
    if lane.began is not None:
        found["seconds"] = round((lane.ended or time.monotonic()) - lane.began, 1)
        found["exit"] = lane.process.returncode
    result = os.path.join(folder, f"{lane.name}.json")
    if os.path.exists(result):
        with open(result, encoding="utf-8") as file:
            found["results"] = json.load(file)
    log = os.path.join(folder, f"{lane.name}.log")
    if os.path.exists(log):
        with open(log, encoding="utf-8", errors="replace") as file:
            found["printed"] = file.read()[-20_000:]
    return found


def unpacked(carried, folder):
    """The folder of each part that is there: packages, the command, nanoGPT."""
    parts = {}
    for part in ("site", "command", "nanogpt"):
        files = glob.glob(os.path.join(carried, f"{part}.tar.*"))
        if not files:
            continue
        # By this name dill knows packages, and does not try to write their contents down.
        target = os.path.join(folder, "site-packages" if part == "site" else part)
        with tarfile.open(files[0]) as archive:
            archive.extractall(target, filter="data")
        parts[part] = target
    if os.path.isdir(os.path.join(parts.get("site", ""), "trl")):
        parts["trl"] = parts["site"]
    return parts


def starter(parts):
    """The folder of `node` and the path of plimsoll.js, of the archive that carry.py packed."""
    found = glob.glob(os.path.join(parts.get("command", ""), "*", "bin", "plimsoll.js"))
    return found[0] if found else None


def lanes_of(given, folder, parts):
    tiny = ["--tiny"] if given.tiny else []
    carried = ["--carried", parts["site"]] if "site" in parts else []

    def measure(name, *more, **how):
        out = os.path.join(folder, f"{name}.json")
        words = [os.path.join(HERE, "measure.py"), out, PACKAGE, *tiny, *carried, *more]
        return Lane(name, [*words, "--only", name], **how)

    seeds = [os.path.join(HERE, "dropout_seeds.py")]
    seeds += [os.path.join(folder, "bert-dropout-seeds.json"), PACKAGE, *tiny]
    outside = [os.path.join(HERE, "outside.py"), os.path.join(folder, "nanogpt.json")]
    outside += [starter(parts) or "missing", parts.get("nanogpt", "missing"), *tiny]
    return [
        measure("vit-prepared", "--repeats", "4", needs=("site",), alone=True),
        measure("bert", "--repeats", "2", alone=True),
        measure("vit", needs=("site",)),
        measure("sft", needs=("site", "trl")),
        measure("bert-fp16"),
        measure("bert-dropout"),
        Lane("bert-dropout-seeds", seeds),
        Lane("nanogpt", [*outside, "--only", "nanogpt"], needs=("command", "nanogpt")),
    ]


class Card:
    def __init__(self, given):
        self.given = given
        self.folder = tempfile.mkdtemp(prefix="card-")
        self.deadline = time.monotonic() + given.seconds
        self.parts = unpacked(given.carried, self.folder)
        self.environment = {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONUNBUFFERED": "1"}
        node = starter(self.parts)
        if node is not None:
            runtime = os.path.join(os.path.dirname(os.path.dirname(node)), "runtime")
            self.environment["PATH"] = f"{runtime}{os.pathsep}{os.environ['PATH']}"
        self.lanes = lanes_of(given, self.folder, self.parts)
        unknown = set(given.only) - {lane.name for lane in self.lanes}
        if unknown:
            sys.exit(f"no such lane: {', '.join(sorted(unknown))}; --list shows them")
        if given.only:
            self.lanes = [lane for lane in self.lanes if lane.name in given.only]
        for lane in self.lanes:
            missing = [part for part in lane.needs if part not in self.parts]
            if missing:
                lane.why = f"skipped: not carried: {', '.join(missing)}"

    def run(self):
        signal.signal(signal.SIGTERM, lambda *_: self.end("ended by a signal"))
        ready = [lane for lane in self.lanes if lane.why == "not started"]
        for lane in [one for one in ready if one.alone]:
            self.wait_for([lane])
        self.wait_for([one for one in ready if not one.alone])
        self.end("ended: its time was over")

    def wait_for(self, lanes):
        if time.monotonic() >= self.deadline:
            return
        for lane in lanes:
            lane.start(self.folder, self.environment)
        saved = 0.0
        while any(not lane.look() for lane in lanes):
            if time.monotonic() >= self.deadline:
                for lane in lanes:
                    lane.stop("ended: its time was over")
                break
            if time.monotonic() - saved > SAVE_SECONDS:
                self.save()
                saved = time.monotonic()
            time.sleep(0.2)
        self.save()
        for lane in lanes:
            print(f"{lane.name}: {lane.why}", flush=True)

    def save(self):
        os.makedirs(self.given.output, exist_ok=True)
        path = os.path.join(self.given.output, "results.json")
        with open(f"{path}.new", "w", encoding="utf-8") as file:
            json.dump([result_of(lane, self.folder) for lane in self.lanes], file, indent=1)
        os.replace(f"{path}.new", path)

    def end(self, why):
        for lane in self.lanes:
            lane.stop(why)
        self.save()
        shutil.rmtree(self.folder, ignore_errors=True)
        bad = [lane.name for lane in self.lanes if lane.why != "ended"]
        print(f"not ended: {', '.join(bad)}" if bad else "all lanes ended", flush=True)
        os._exit(1 if bad else 0)


def main():
    given = parsed()
    if given.list:
        for lane in lanes_of(given, "", {}):
            how = "alone" if lane.alone else "beside others"
            print(f"{lane.name}: {how}, needs {', '.join(lane.needs) or 'nothing carried'}")
        return
    Card(given).run()


main()
