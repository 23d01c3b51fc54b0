"""The SFTTrainer of TRL, with no change: its steps are done in parts when they do not fit."""

import importlib.util
import logging
import tempfile
import unittest

import torch

from trainers.small_trainer import Faults, Watched, gpt2, losses, quiet

HAS_TRL = importlib.util.find_spec("trl") is not None
SAMPLES = 24


def made(seed, faults=None, adapters=False, **settings):
    from datasets import Dataset
    from peft import LoraConfig
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast
    from transformers.trainer_callback import PrinterCallback
    from trl import SFTConfig, SFTTrainer

    torch.manual_seed(seed)
    model = gpt2(0.0)
    if faults is not None:
        faults.watch(model, "gpt2")
    numbers = {"<pad>": 0, "<begin>": 1, "<end>": 2}
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(models.WordLevel(numbers, unk_token="<pad>")),
        pad_token="<pad>",
        eos_token="<end>",
    )
    # Texts of unlike lengths: each batch is filled up, and what was filled up carries no loss.
    made_by = torch.Generator().manual_seed(7)
    rows = [torch.randint(3, 40, (4 + i % 9,), generator=made_by).tolist() for i in range(SAMPLES)]
    given = {
        "output_dir": tempfile.gettempdir(),
        "per_device_train_batch_size": 6,
        "num_train_epochs": 1,
        "logging_steps": 1,
        "report_to": [],
        "save_strategy": "no",
        "use_cpu": True,
        "bf16": False,
        "disable_tqdm": True,
        "gradient_checkpointing": False,
        "learning_rate": 1e-2,
        "max_length": 32,
        **settings,
    }
    trainer = SFTTrainer(
        model,
        args=SFTConfig(**given),
        train_dataset=Dataset.from_dict({"input_ids": rows}),
        processing_class=tokenizer,
        peft_config=LoraConfig(r=2, target_modules=["c_attn"]) if adapters else None,
    )
    trainer.remove_callback(PrinterCallback)
    return trainer


@unittest.skipUnless(HAS_TRL, "trl is not installed")
class Trl(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        quiet()

    @classmethod
    def tearDownClass(cls):
        logging.getLogger("plimsoll").setLevel(logging.NOTSET)

    def test_failures_inside_the_step_are_recovered(self):
        for trial, (point, at, settings, adapters) in enumerate(
            [
                ("forward", [1, 6], {}, False),
                ("forward", [2], {"gradient_accumulation_steps": 2}, True),
                ("backward", [1], {"gradient_accumulation_steps": 2}, False),
                ("backward", [2, 5], {"max_grad_norm": 0.5}, False),
                ("clip", [1], {"max_grad_norm": 0.5}, True),
            ]
        ):
            with self.subTest(f"{point} {at} {settings} {adapters}"):
                faults = Faults(point, at)
                mine = made(trial, faults, adapters, **settings)
                with faults.around():
                    watched = Watched(mine).train()
                self.assertGreaterEqual(faults.raised, 1)
                parts = [sizes for window in watched.windows for sizes in window]
                self.assertEqual(sum(map(sum, parts)), SAMPLES, "each sample once")
                plain = made(trial, None, adapters, **settings)
                plain.train()
                self.assertEqual(len(losses(mine)), len(losses(plain)))
                for one, other in zip(losses(mine), losses(plain)):
                    self.assertLess(abs(one - other), 1e-3 * other)


if __name__ == "__main__":
    unittest.main()
