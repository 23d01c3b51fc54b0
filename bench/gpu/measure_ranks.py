"""What one rank of many takes of a real GPU, each case in a fresh process; its other ranks are pretended.

    python3 bench/gpu/measure_ranks.py ranks --output rank-cases.json [--configs FOLDER] [--only TEXT] [--parallel 3]

Collectives of torch's "fake" group do nothing, and every allocation is real. DDP needs a group that answers,
so it runs with NCCL and one rank: its buckets do not depend on how many ranks there are. A case has the
fields of bench/truth/sharded.json; four steps, and the peaks count from when the model is on the GPU.
"""

import argparse
import gc
import json
import os
import subprocess
import sys
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

from truth import cases_of, folder

STEPS = 4
# Of one case; only ends what hangs.
CASE_SECONDS = 300
DTYPES = {"bf16": "bfloat16", "fp16": "float16"}


def begin(case, device):
    import torch.distributed as dist
    from torch.testing._internal.distributed.fake_pg import FakeStore

    if case["way"] == "ddp":
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(20000 + os.getpid() % 20000))
        dist.init_process_group("nccl" if device == "cuda" else "gloo", rank=0, world_size=1)
    else:
        dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=case["world"])


def built(case, configs, on):
    import torch
    import transformers

    with open(os.path.join(configs, case["model"] + ".json"), encoding="utf-8") as file:
        config = transformers.AutoConfig.for_model(**json.load(file))
    config.use_cache = False
    dtype = getattr(torch, DTYPES.get(case["precision"], "float32"))
    with torch.device(on):
        model = getattr(transformers, config.architectures[0])._from_config(config, dtype=dtype)
    if case.get("checkpointing"):
        model.gradient_checkpointing_enable()
    return model.train(), config.vocab_size


def layers_of(model):
    """The layers of its outermost stack."""
    import torch

    return max(
        (m for m in model.modules() if isinstance(m, torch.nn.ModuleList)), key=lambda m: len(m)
    )


def by_fully_shard(model, case, device):
    import torch
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    tp, nodes, world = case.get("tp", 1), case.get("nodes", 1), case["world"]
    sizes = {"replicate": nodes, "shard": world // tp // nodes, "tp": tp}
    names = tuple(name for name, size in sizes.items() if size > 1)
    mesh = init_device_mesh(device, tuple(sizes[n] for n in names), mesh_dim_names=names)
    if tp > 1:
        by_tensor_plan(model, mesh["tp"])
    data = tuple(name for name in names if name != "tp")
    if data:
        policy = MixedPrecisionPolicy()
        if case["precision"] == "bf16-mixed":
            policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        given = {"mesh": mesh[data] if len(data) > 1 else mesh[data[0]], "mp_policy": policy}
        if case.get("reshard") is False:
            given["reshard_after_forward"] = False
        for layer in layers_of(model):
            fully_shard(layer, **given)
        fully_shard(model, **given)
    return model.to_empty(device=device)


def by_tensor_plan(model, mesh):
    from torch.distributed.tensor import Replicate
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    styles = {
        "colwise": ColwiseParallel,
        "rowwise": RowwiseParallel,
        "colwise_gather_output": lambda: ColwiseParallel(output_layouts=Replicate()),
    }
    tied = getattr(model.config, "tie_word_embeddings", False)
    plan = {
        name: styles[style]()
        for name, style in model._tp_plan.items()
        if style in styles and not (tied and name == "lm_head")
    }
    parallelize_module(model, mesh, plan, src_data_rank=None)


def by_fsdp1(model, case, device):
    import torch
    from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision, ShardingStrategy
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy

    mixed = None
    if case["precision"] == "bf16-mixed":
        mixed = MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    return FullyShardedDataParallel(
        model,
        auto_wrap_policy=ModuleWrapPolicy({type(layers_of(model)[0])}),
        mixed_precision=mixed,
        sharding_strategy=ShardingStrategy[case.get("strategy", "FULL_SHARD")],
        use_orig_params=case.get("orig", True),
        device_id=torch.device(device, 0) if device == "cuda" else None,
        param_init_fn=with_memory(device),
    )


def with_memory(device):
    """Gives a module of the meta device memory; what two modules share they share there, too."""
    import torch

    # By the parameter of meta: the one that took its place, as long as a module holds it.
    made = {}

    def init(module):
        for name, parameter in module._parameters.items():
            if parameter is None:
                continue
            new = made[parameter]() if parameter in made else None
            if new is None:
                new = torch.nn.Parameter(torch.empty_like(parameter, device=device))
                made[parameter] = weakref.ref(new)
            module._parameters[name] = new
        for name, buffer in module._buffers.items():
            if buffer is not None:
                module._buffers[name] = torch.empty_like(buffer, device=device)

    return init


def spread(case, configs, device):
    import torch

    way = case["way"]
    if way in ("ddp", "zero1"):
        model, words = built(case, configs, device)
        if way == "ddp":
            model = torch.nn.parallel.DistributedDataParallel(
                model,
                device_ids=[0] if device == "cuda" else None,
                bucket_cap_mb=case.get("bucket", 25),
                gradient_as_bucket_view=case.get("view", False),
            )
        return model, words
    model, words = built(case, configs, "meta")
    if way == "fsdp1":
        return by_fsdp1(model, case, device), words
    return by_fully_shard(model, case, device), words


def optimizer_of(case, model):
    import torch

    kinds = {
        "adamw": (torch.optim.AdamW, {}),
        "adamw-fused": (torch.optim.AdamW, {"fused": True}),
        "sgd": (torch.optim.SGD, {}),
        "sgd-momentum": (torch.optim.SGD, {"momentum": 0.9}),
    }
    kind, more = kinds[case.get("optimizer", "adamw")]
    if case["way"] == "zero1":
        from torch.distributed.optim import ZeroRedundancyOptimizer

        return ZeroRedundancyOptimizer(model.parameters(), kind, lr=1e-4, **more)
    # With tensor parallelism some parameters are cut, and no step goes through both kinds at once.
    kinds_of = ([], [])
    for parameter in model.parameters():
        kinds_of[hasattr(parameter, "_local_tensor")].append(parameter)
    return kind([{"params": one} for one in kinds_of if one], lr=1e-4, **more)


def measure(case, configs, device):
    import torch

    cuda = torch.cuda if device == "cuda" else None
    if case.get("history"):
        cuda.memory._record_memory_history(context=None, max_entries=1_000_000)
    begin(case, device)
    model, words = spread(case, configs, device)
    # What came to the GPU without values: positions must not point outside of a table.
    for buffer in model.buffers():
        buffer.zero_()
    optimizer = optimizer_of(case, model)
    amp = case["precision"].startswith("amp-")
    gc.collect()
    if cuda:
        cuda.synchronize()
        cuda.empty_cache()
        cuda.reset_peak_memory_stats()
        loaded = cuda.memory_allocated()
    peaks, ends = [], []
    for _ in range(STEPS):
        for _ in range(case.get("accum", 1)):
            ids = torch.randint(0, words, (case["batch"], case["seq"]), device=device)
            with torch.autocast(device, dtype=torch.bfloat16) if amp else nullcontext():
                loss = model(input_ids=ids, labels=ids).loss
            loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if cuda:
            if not case.get("hurry"):
                cuda.synchronize()
            ends.append(time.time_ns() // 1000)
            time.sleep(case.get("pause", 0))
            peaks.append([cuda.max_memory_allocated(), cuda.max_memory_reserved()])
    told = dict(case)
    if cuda:
        told.update(
            loaded=loaded,
            peaks=peaks,
            peak_allocated=cuda.max_memory_allocated(),
            peak_reserved=cuda.max_memory_reserved(),
            gpu=cuda.get_device_name(),
        )
    if case.get("history"):
        told.update(ends=ends, largest=largest_life(cuda))
    told["torch"] = torch.__version__
    return told


def largest_life(cuda):
    """Every event of the blocks that are as large as the largest: when each was asked for and given back."""
    events = cuda.memory._snapshot()["device_traces"][0]
    asked = [e for e in events if e["action"] in ("alloc", "free_requested", "free_completed")]
    largest = sorted({e["size"] for e in asked})[-4:]
    return [
        [e["action"], e["size"], e["addr"], e["time_us"]] for e in asked if e["size"] in largest
    ]


def alone(case, given):
    command = [sys.executable, __file__, "-", "--configs", given.configs, "--device", given.device]
    command += ["--output", "-", "--case", json.dumps(case)]
    more = {name: str(value) for name, value in case.get("environment", {}).items()}
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=CASE_SECONDS,
            env={**os.environ, **more},
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {**case, "failed": f"longer than {CASE_SECONDS} s"}
    lines = done.stdout.splitlines()
    if done.returncode == 0 and lines:
        return json.loads(lines[-1])
    return {**case, "failed": f"exit code {done.returncode}: {done.stderr[-1500:]}"}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("cases", help="a file, or a list of bench/truth/cases")
    parser.add_argument("--configs", help="sharded-configs of bench/truth/cases as a rule")
    parser.add_argument("--output", required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--parallel", type=int, default=1)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--case")
    given = parser.parse_args()
    given.configs = given.configs or os.path.join(folder("cases"), "sharded-configs")
    if given.case:
        print(json.dumps(measure(json.loads(given.case), given.configs, given.device)), flush=True)
        os._exit(0)
    cases = [case for case in cases_of(given.cases) if given.only in case["id"]]
    done = []
    with ThreadPoolExecutor(given.parallel) as pool:
        for told in pool.map(lambda case: alone(case, given), cases):
            done.append(told)
            # After each: what was measured stays where the whole is ended early.
            with open(given.output, "w", encoding="utf-8") as file:
                json.dump({"results": done}, file, indent=1)


if __name__ == "__main__":
    main()
