"""Ray Train for real: workers report what they took, and the callback keeps it for the next share.

Prints one line of JSON: the share before, after a run that ended well, and after one that ran out of memory.
"""

from __future__ import annotations

import json
import os
import resource
import sys

import ray
import ray.train
from ray.train import RunConfig, ScalingConfig, TrainingFailedError
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

import plimsoll

# More than any address space has.
IMPOSSIBLE_BYTES = 2**47


def work(config: dict) -> None:
    rank = ray.train.get_context().get_world_rank()
    # The ranks take different amounts: the highest counts.
    held = bytearray(b"x") * (config["bytes"] * (rank + 1))
    taken = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    with open(os.path.join(config["notes"], f"peak-{rank}"), "w") as note:
        note.write(str(taken))
    ray.train.report({"plimsoll_peak_bytes": taken, "held": len(held)})
    if config["fails"] and rank == 0:
        bytearray(IMPOSSIBLE_BYTES)


def share() -> plimsoll.ray.Share:
    return plimsoll.ray.gpus("gpt2", batch=8, seq=512, gpu="a100-80gb", method="formula")


def train(name: str, fails: bool) -> str:
    asked = share()
    trainer = DataParallelTrainer(
        work,
        train_loop_config={"bytes": 64 * 2**20, "fails": fails, "notes": sys.argv[1]},
        scaling_config=ScalingConfig(
            num_workers=2, use_gpu=True, resources_per_worker={"GPU": asked}
        ),
        run_config=RunConfig(
            name=name, storage_path=sys.argv[1], callbacks=[plimsoll.ray.callback(asked)]
        ),
    )
    try:
        trainer.fit()
    except TrainingFailedError as error:
        return type(error).__name__
    return "well"


def peaks() -> list:
    names = (os.path.join(sys.argv[1], f"peak-{rank}") for rank in range(2))
    return [int(open(name).read()) for name in names]


def shown(found: plimsoll.ray.Share) -> dict:
    return {"share": float(found), "needBytes": found.need_bytes, "basis": found.basis}


def main() -> None:
    # The callback runs in a process of Ray's own, which has the environment of its node.
    passed = {name: os.environ[name] for name in ("PYTHONPATH", "PLIMSOLL_HOME")}
    os.makedirs(sys.argv[1])
    ray.init(runtime_env={"env_vars": passed})
    found = {"before": shown(share())}
    found["first"] = train("first", fails=False)
    found["peaks"] = peaks()
    found["after"] = shown(share())
    found["second"] = train("second", fails=True)
    found["more"] = shown(share())
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
