"""A program that knows nothing of Plimsoll: TRL's SFTTrainer with GPT-2 on random texts of unlike lengths.

Usage: trl_sft.py --batch N --accumulation N --steps N [--tiny]
"""

import argparse
import json
import tempfile
import time

import torch
from datasets import Dataset
from step_times import Times
from tokenizers import Tokenizer, models
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast
from trl import SFTConfig, SFTTrainer

parser = argparse.ArgumentParser()
parser.add_argument("--batch", type=int, required=True)
parser.add_argument("--accumulation", type=int, default=1)
parser.add_argument("--steps", type=int, default=12)
parser.add_argument("--tiny", action="store_true")
given = parser.parse_args()
SMALL = {"n_embd": 16, "n_layer": 2, "n_head": 2} if given.tiny else {}
WORDS, LENGTH = (100, 16) if given.tiny else (50257, 512)


torch.manual_seed(0)
still = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
model = GPT2LMHeadModel(GPT2Config(vocab_size=WORDS, n_positions=LENGTH, **still, **SMALL))
tokenizer = PreTrainedTokenizerFast(
    tokenizer_object=Tokenizer(models.WordLevel({"<pad>": 0, "<end>": 1}, unk_token="<pad>")),
    pad_token="<pad>",
    eos_token="<end>",
)
drawn = torch.Generator().manual_seed(0)
rows = [
    torch.randint(3, WORDS, (LENGTH // 2 + i * 37 % (LENGTH // 2),), generator=drawn).tolist()
    for i in range(given.batch * given.accumulation * given.steps)
]
times = Times()
arguments = SFTConfig(
    output_dir=tempfile.mkdtemp(),
    per_device_train_batch_size=given.batch,
    gradient_accumulation_steps=given.accumulation,
    max_steps=given.steps,
    max_length=LENGTH,
    bf16=False,
    gradient_checkpointing=False,
    logging_steps=1,
    learning_rate=1e-4,
    lr_scheduler_type="constant",
    report_to=[],
    save_strategy="no",
    disable_tqdm=True,
)
data = Dataset.from_dict({"input_ids": rows})
trainer = SFTTrainer(
    model, args=arguments, train_dataset=data, processing_class=tokenizer, callbacks=[times]
)
began = time.perf_counter()
trainer.train()
answer = {
    "losses": [entry["loss"] for entry in trainer.state.log_history if "loss" in entry],
    "seconds": time.perf_counter() - began,
    "stepSeconds": [b - a for a, b in zip(times.at, times.at[1:])],
}
if torch.cuda.is_available():
    answer["peakReservedBytes"] = torch.cuda.max_memory_reserved()
print("ANSWER " + json.dumps(answer))
