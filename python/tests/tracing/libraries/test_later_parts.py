"""Parts of libraries that wait until a program asks something of them."""

import json
import os
import subprocess
import sys
import tempfile
import textwrap
import unittest

from tracing import PACKAGE

RUN = """
import json, sys
from plimsoll.trace import main
status = main(["--gpu", "h200", "--output", sys.argv[1], "--program", sys.argv[2]])
slow = ("torch._dynamo.convert_frame", "sympy.core", "pandas", "datasets.arrow_dataset", "peft.peft_model")
print(json.dumps([name for name in slow if name in sys.modules]))
sys.exit(status)
"""
STEP = """
import torch
model = torch.nn.Linear(64, 64).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(3):
    model(torch.ones(8, 64, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
HALVES = """
import torch
halves = torch.ones(8, 64, device="cuda", dtype=torch.float16, requires_grad=True)
halves.sum(0).float().sum().backward()
"""
COMPUTED = """
import torch
torch.ones(8, 64, device="cuda", dtype=torch.float16).sum(0)
from torch.utils._sympy.functions import FloorDiv, Max
import sympy
assert Max(sympy.Integer(2), sympy.Integer(5)) == 5 and FloorDiv(sympy.Integer(5), sympy.Integer(2)) == 2
"""
TRAINER = """
import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments
config = BertConfig(vocab_size=99, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64)
rows = [{"input_ids": torch.arange(8), "labels": 1} for _ in range(32)]
settings = TrainingArguments("out", per_device_train_batch_size=8, max_steps=3, report_to="none")
Trainer(BertForSequenceClassification(config), settings, train_dataset=rows).train()
"""
ADAPTERS = """
import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer
from transformers import trainer, trainer_utils
held = trainer.PeftModel
from peft import LoraConfig, PeftModel, get_peft_model
assert trainer.PeftModel is trainer_utils.PeftModel is PeftModel is not held
config = BertConfig(vocab_size=99, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64)
model = get_peft_model(BertForSequenceClassification(config), LoraConfig(target_modules=["query"]))
assert trainer_utils._is_peft_model(model)
model.cuda()(input_ids=torch.ones(2, 8, dtype=torch.int64, device="cuda"))
"""
MARKED = """
import torch

@torch.compiler.disable
def apart(value):
    "Runs as it is."
    return value + 1

@torch.compiler.disable(recursive=False)
def alone(value):
    return value + 2

assert apart.__doc__ and apart._torchdynamo_disable and not alone._torchdynamo_disable_recursive
assert int(apart(torch.ones(()))) == 2
import torch._dynamo as compiler
compiler.allow_in_graph(apart)
from torch._dynamo.eval_frame import OptimizedModule
assert int(apart(torch.ones(()))) == 2 and int(alone(torch.ones(()))) == 3
assert torch._dynamo.eval_frame.OptimizedModule is OptimizedModule
assert compiler.config.__name__ == "torch._dynamo.config"
torch.ones(1, device="cuda")
"""

SYMBOLS = """
import sys, torch
import torch.fx.experimental.symbolic_shapes as shapes
assert int(shapes.sympy.Integer(2)) == 2
assert shapes.sympy is sys.modules["sympy"]
torch.ones(1, device="cuda")
"""


class LaterParts(unittest.TestCase):
    def loaded(self, program):
        """The slow ones of all modules that a program has loaded by its end."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "train.py")
            with open(path, "w", encoding="utf-8") as file:
                file.write(textwrap.dedent(program))
            done = subprocess.run(
                [sys.executable, "-W", "ignore", "-c", RUN, os.path.join(folder, "trace"), path],
                env={**os.environ, "PYTHONPATH": PACKAGE},
                cwd=folder,
                capture_output=True,
                text=True,
                check=False,
            )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return json.loads(done.stdout.strip().splitlines()[-1])

    def test_a_step_of_an_optimizer_loads_no_compiler(self):
        self.assertEqual(self.loaded(STEP), [])

    def test_sums_in_half_precision_load_no_symbols(self):
        self.assertEqual(self.loaded(HALVES), [])

    def test_a_program_that_works_with_symbols_has_the_real_ones(self):
        self.assertEqual(self.loaded(COMPUTED), ["sympy.core"])

    def test_a_trainer_loads_neither_a_compiler_nor_data_sets_nor_adapters(self):
        try:
            import accelerate  # noqa: F401
            import transformers  # noqa: F401
        except ImportError:
            self.skipTest("needs transformers and accelerate")
        self.assertEqual(self.loaded(TRAINER), [])

    def test_a_model_with_adapters_is_known_where_they_are_imported_after_the_trainer(self):
        try:
            import peft  # noqa: F401
        except ImportError:
            self.skipTest("needs peft")
        self.assertEqual(self.loaded(ADAPTERS), ["peft.peft_model"])

    def test_what_was_marked_for_the_compiler_is_known_to_it_later(self):
        self.assertIn("torch._dynamo.convert_frame", self.loaded(MARKED))

    def test_a_package_that_was_asked_takes_the_place_of_what_stood_for_it(self):
        self.assertIn("sympy.core", self.loaded(SYMBOLS))

    def test_a_programs_own_data_sets_are_found(self):
        program = """
            import os, sys
            os.makedirs("datasets")
            open("datasets/__init__.py", "w").write("Dataset = 5")
            import torch
            from datasets import Dataset
            assert Dataset == 5
            torch.ones(1, device="cuda")
        """
        self.assertEqual(self.loaded(program), [])


if __name__ == "__main__":
    unittest.main()
