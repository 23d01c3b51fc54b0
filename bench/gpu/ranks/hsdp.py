"""A training with `fully_shard` over a mesh of machines and ranks, as people write it.

    torchrun --nnodes 2 --nproc-per-node 4 bench/gpu/ranks/hsdp.py --config FILE --machines 2

Each layer is one group. Shards lie within a machine and are copied between machines (HSDP); with one
machine it is FSDP2. The model is built on the host, and gradients are clipped.
"""

import argparse
import json

import torch
import torch.distributed as dist
import transformers
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", required=True)
    parser.add_argument("--machines", type=int, default=2)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--no-clip", action="store_true")
    given = parser.parse_args()

    dist.init_process_group("nccl")
    ranks = dist.get_world_size() // given.machines
    sizes, names = (ranks,), ("shard",)
    if given.machines > 1:
        sizes, names = (given.machines, ranks), ("replicate", "shard")
    mesh = init_device_mesh("cuda", sizes, mesh_dim_names=names)

    with open(given.config, encoding="utf-8") as file:
        config = transformers.AutoConfig.for_model(**json.load(file))
    config.use_cache = False
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for layer in model.model.layers:
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)

    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for _ in range(given.steps):
        ids = torch.randint(0, config.vocab_size, (given.batch, given.tokens), device="cuda")
        model(input_ids=ids, labels=ids).loss.backward()
        if not given.no_clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
