"""One rank alone: sharded models, their checkpoints, and collectives whose arguments are given by name."""

import unittest

from tracing.kinds.traced_program import rows_of

ALONE = """
import os, tempfile
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoints
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import fully_shard

os.environ.update(MASTER_ADDR="localhost", MASTER_PORT="29500", RANK="0", WORLD_SIZE="1")
os.chdir(tempfile.mkdtemp())
dist.init_process_group("nccl")
model = nn.Sequential(nn.Linear(512, 512), nn.Linear(512, 512)).cuda()
for layer in (*model, model):
    fully_shard(layer)
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(3):
    model(torch.randn(64, 512, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
weights, moments = get_state_dict(model, optimizer)
try:
    checkpoints.load({"model": weights}, checkpoint_id="none")
except checkpoints.CheckpointException:
    pass
else:
    raise AssertionError("nothing is there")
checkpoints.save({"model": weights, "optimizer": moments}, checkpoint_id="last")
assert os.path.exists("last/.metadata")
checkpoints.load({"model": weights, "optimizer": moments}, checkpoint_id="last")
set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=moments)

losses, loss = [torch.zeros(1, device="cuda")], torch.ones(1, device="cuda")
dist.all_gather(tensor_list=losses, tensor=loss)
dist.gather(tensor=loss, gather_list=losses, dst=0)
results = [None]
dist.all_gather_object(object_list=results, obj={"loss": 1})
assert results == [{"loss": 1}]
dist.gather_object(object_gather_list=results, obj={"loss": 2}, dst=0)
assert results == [{"loss": 2}]
assert dist.all_gather(losses, loss, async_op=True).wait()
dist.destroy_process_group()
"""


class ShardedCheckpoints(unittest.TestCase):
    def test_they_are_saved_and_loaded_by_name(self):
        rows_of(self, ALONE)


if __name__ == "__main__":
    unittest.main()
