"""DeepSpeed itself reads what `plan --format deepspeed` prints, and has the sizes of buffers that are counted.

It is not in .venv: `npm run test:integrations deepspeed` installs it, without CUDA.
"""

import importlib.util
import json
import os
import subprocess
import unittest

from plimsoll_trace.sharding import zero
from sharding import PACKAGE

ROOT = os.path.dirname(PACKAGE)
PRINTED = """
import { shardingFormat } from './dist/plan/snippets/plan-lines.js';
const settings = { precision: 'amp-bf16', optimizer: 'adamw-fused', checkpointing: false, batch: 2 };
const option = (parallel) => ({ parallel, ...settings, fit: 'surely', accumulation: 1, givesUp: '' });
const ways = [{ way: 'ddp', gpus: 1 }, { way: 'fsdp2', gpus: 1, reshard: false }, { way: 'fsdp2', gpus: 1 }];
console.log(JSON.stringify(ways.map((one) => JSON.parse(shardingFormat('deepspeed', option(one))))));
"""


@unittest.skipUnless(importlib.util.find_spec("deepspeed"), "deepspeed is not installed")
class DeepSpeedItself(unittest.TestCase):
    def test_it_reads_the_files_of_each_stage(self):
        from deepspeed.runtime.config import DeepSpeedConfig

        printed = subprocess.run(
            ["node", "--input-type=module", "-e", PRINTED],
            cwd=ROOT, capture_output=True, text=True, check=True,
        )  # fmt: skip
        files = json.loads(printed.stdout)
        self.assertEqual(len(files), 3)
        for stage, file in zip((0, 2, 3), files):
            read = DeepSpeedConfig(file)
            self.assertEqual(read.zero_optimization_stage, stage)
            self.assertEqual(read.train_micro_batch_size_per_gpu, 2)
            self.assertTrue(read.bfloat16_config.enabled)
            # One bucket in stage 2, and two in stage 3, are what a trace counts.
            self.assertEqual(bool(read.zero_config.overlap_comm), stage == 3)

    def test_its_buffers_are_as_large_as_those_that_are_counted(self):
        from deepspeed.runtime.zero.config import DeepSpeedZeroConfig

        for stage in (2, 3):
            config = DeepSpeedZeroConfig(stage=stage)
            self.assertEqual(config.reduce_bucket_size, zero._REDUCE_BUCKET)
        self.assertEqual(config.max_live_parameters, zero._MAX_LIVE)
        self.assertEqual(config.prefetch_bucket_size, zero._PREFETCH)


if __name__ == "__main__":
    unittest.main()
