"""What one rank of many takes of an H200, in one go of about three minutes: programs, and tied embeddings.

    python3 bench/gpu/ranks/measure.py OUTPUT_FOLDER

`programs.jsonl`: hsdp.py with two machines, clipped and not, and with one (FSDP2), each with the events of its
allocator. `tied.json`: FSDP1 cases whose head shares its weights with the embedding.
"""

import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
import truth

# By name: how many ranks, and what the program is given.
PROGRAMS = {
    "hsdp-clipped": (8, ["--machines", "2"]),
    "hsdp": (8, ["--machines", "2", "--no-clip"]),
    "fsdp2-clipped": (4, ["--machines", "1"]),
}


def commands(folder):
    config = os.path.join(truth.folder("cases"), "sharded-configs", "tinyllama-1.1b.json")
    for name, (world, more) in PROGRAMS.items():
        yield [
            os.path.join(HERE, "../fake_ranks.py"), "--world", str(world),
            "--output", os.path.join(folder, "programs.jsonl"),
            "--events", os.path.join(folder, f"{name}.json.gz"),
            os.path.join(HERE, "hsdp.py"), "--config", config, *more,
        ]  # fmt: skip
    yield [
        os.path.join(HERE, "../measure_ranks.py"), "ranks-tied",
        "--output", os.path.join(folder, "tied.json"), "--parallel", "2",
    ]  # fmt: skip


def main():
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    running = [subprocess.Popen([sys.executable, *command]) for command in commands(folder)]
    sys.exit(max(one.wait() for one in running))


if __name__ == "__main__":
    main()
