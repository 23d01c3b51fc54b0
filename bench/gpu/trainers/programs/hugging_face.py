"""A program that knows nothing of Plimsoll: the Trainer of transformers on random texts.

Usage: hugging_face.py bert|gpt2|t5 --batch N --accumulation N --steps N
       [--precision fp32|fp16|bf16] [--dropout P] [--seed N] [--lost N] [--tiny] [--auto-find]
With --lost each batch is trained without its last N samples.
"""

import argparse
import json
import sys
import tempfile
import time

import torch
from step_times import Times
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    GPT2Config,
    GPT2LMHeadModel,
    T5Config,
    T5ForConditionalGeneration,
    Trainer,
    TrainingArguments,
    default_data_collator,
)

parser = argparse.ArgumentParser()
parser.add_argument("model")
parser.add_argument("--batch", type=int, required=True)
parser.add_argument("--accumulation", type=int, default=1)
parser.add_argument("--steps", type=int, default=12)
parser.add_argument("--precision", choices=["fp32", "fp16", "bf16"], default="fp32")
parser.add_argument("--dropout", type=float, default=0.0)
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--lost", type=int, default=0)
parser.add_argument("--tiny", action="store_true")
parser.add_argument("--auto-find", action="store_true")
given = parser.parse_args()
tiny = given.tiny
LENGTH = 16 if tiny else {"bert": 256, "gpt2": 512, "t5": 256}[given.model]
WORDS = 100 if tiny else {"bert": 30522, "gpt2": 50257, "t5": 32128}[given.model]


def build():
    if given.model == "bert":
        small = (
            {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2} if tiny else {}
        )
        return BertForSequenceClassification(
            BertConfig(
                vocab_size=WORDS,
                num_labels=4,
                hidden_dropout_prob=given.dropout,
                attention_probs_dropout_prob=given.dropout,
                **small,
            )
        )
    if given.model == "gpt2":
        small = {"n_embd": 16, "n_layer": 2, "n_head": 2} if tiny else {}
        still = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), given.dropout)
        return GPT2LMHeadModel(GPT2Config(vocab_size=WORDS, n_positions=512, **still, **small))
    small = {"d_model": 16, "num_layers": 2, "num_heads": 2, "d_ff": 32} if tiny else {}
    return T5ForConditionalGeneration(
        T5Config(vocab_size=WORDS, dropout_rate=given.dropout, decoder_start_token_id=0, **small)
    )


class Texts(torch.utils.data.Dataset):
    def __len__(self):
        return given.batch * given.accumulation * given.steps

    def __getitem__(self, i):
        made = torch.Generator().manual_seed(i)
        ids = torch.randint(3, WORDS, (LENGTH,), generator=made)
        if given.model == "bert":
            return {"input_ids": ids, "labels": torch.tensor(int(ids[0]) % 4)}
        labels = ids.clone() if given.model == "gpt2" else ids[: LENGTH // 2].clone()
        # Targets of unlike lengths, filled up with -100 as collators do.
        labels[len(labels) // 4 + (i * 37) % (len(labels) // 2) :] = -100
        return {"input_ids": ids, "labels": labels}


def batch_of(texts):
    return default_data_collator(texts[: len(texts) - given.lost])


torch.manual_seed(0)
model = build()
torch.manual_seed(given.seed)
times = Times()
arguments = TrainingArguments(
    output_dir=tempfile.mkdtemp(),
    per_device_train_batch_size=given.batch,
    gradient_accumulation_steps=given.accumulation,
    gradient_checkpointing=given.model == "t5",
    auto_find_batch_size=given.auto_find,
    max_steps=given.steps,
    bf16=given.precision == "bf16" and torch.cuda.is_available(),
    fp16=given.precision == "fp16" and torch.cuda.is_available(),
    seed=given.seed,
    # The same texts in the same order, whatever the seed.
    data_seed=0,
    logging_steps=1,
    learning_rate=1e-4,
    lr_scheduler_type="constant",
    report_to=[],
    save_strategy="no",
    disable_tqdm=True,
    dataloader_num_workers=0,
)
trainer = Trainer(
    model, arguments, train_dataset=Texts(), data_collator=batch_of, callbacks=[times]
)
began = time.perf_counter()
done = trainer.train()
answer = {
    "losses": [entry["loss"] for entry in trainer.state.log_history if "loss" in entry],
    "seconds": time.perf_counter() - began,
    "stepSeconds": [b - a for a, b in zip(times.at, times.at[1:])],
    "batch": trainer.args.per_device_train_batch_size,
    "trainBatch": trainer._train_batch_size,
}
if torch.cuda.is_available():
    answer["peakReservedBytes"] = torch.cuda.max_memory_reserved()
print("ANSWER " + json.dumps(answer))
sys.stdout.flush()
