import argparse
import json
import os
import random

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import Qwen3Config, Qwen3ForCausalLM, Trainer, TrainerCallback, TrainingArguments

# Instruction tuning of a Qwen3-0.6B shaped model on variable-length conversations.
# Loss only on the answers. Length grouping to waste less padding.

IGNORE = -100


class Conversations(Dataset):
    def __init__(self, n, max_len, vocab, seed):
        rnd = random.Random(seed)
        self.data = []
        for _ in range(n):
            q = rnd.randint(10, max_len // 3)
            a = min(int(rnd.expovariate(1 / 350)) + 8, max_len - q)
            ids = [rnd.randrange(10, vocab) for _ in range(q + a)]
            self.data.append(
                {"input_ids": ids, "labels": [IGNORE] * q + ids[q:], "length": len(ids)}
            )

    def __len__(self):
        return len(self.data)

    def __getitem__(self, idx):
        return self.data[idx]


class PadCollator:
    def __init__(self, pad_id, multiple=8):
        self.pad_id = pad_id
        self.multiple = multiple

    def __call__(self, features):
        longest = max(len(f["input_ids"]) for f in features)
        longest = (longest + self.multiple - 1) // self.multiple * self.multiple
        batch = {"input_ids": [], "attention_mask": [], "labels": []}
        for f in features:
            n = len(f["input_ids"])
            pad = longest - n
            batch["input_ids"].append(f["input_ids"] + [self.pad_id] * pad)
            batch["attention_mask"].append([1] * n + [0] * pad)
            batch["labels"].append(f["labels"] + [IGNORE] * pad)
        return {k: torch.tensor(v) for k, v in batch.items()}


class MemoryCallback(TrainerCallback):
    """write the log lines to a jsonl file and stop if the loss is not finite"""

    def __init__(self, path):
        self.path = path

    def on_log(self, args, state, control, logs=None, **kw):
        logs = dict(logs or {})
        if torch.cuda.is_available():
            logs["max_mem_gb"] = round(torch.cuda.max_memory_allocated() / 1e9, 2)
        with open(self.path, "a") as f:
            f.write(json.dumps({"step": state.global_step, **logs}) + "\n")
        if "loss" in logs and not np.isfinite(float(logs["loss"])):
            print("non-finite loss, stopping")
            control.should_training_stop = True


def token_predictions(logits, labels):
    return logits.argmax(dim=-1)


def compute_metrics(eval_pred):
    preds, labels = eval_pred
    preds, labels = preds[:, :-1], labels[:, 1:]
    mask = labels != IGNORE
    return {
        "answer_token_acc": float((preds[mask] == labels[mask]).mean()),
        "answer_tokens": int(mask.sum()),
    }


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--n_train", type=int, default=480)
    ap.add_argument("--n_eval", type=int, default=48)
    ap.add_argument("--max_len", type=int, default=1024)
    ap.add_argument("--vocab", type=int, default=151936)
    ap.add_argument("--hidden", type=int, default=1024)
    ap.add_argument("--layers", type=int, default=28)
    ap.add_argument("--bs", type=int, default=8)
    ap.add_argument("--eval_bs", type=int, default=12)
    ap.add_argument("--lr", type=float, default=2e-5)
    ap.add_argument("--out", type=str, default="qwen_lengths")
    opt = ap.parse_args()
    os.makedirs(opt.out, exist_ok=True)
    torch.manual_seed(42)

    cfg = Qwen3Config(
        vocab_size=opt.vocab,
        hidden_size=opt.hidden,
        intermediate_size=opt.hidden * 3,
        num_hidden_layers=opt.layers,
        num_attention_heads=16,
        num_key_value_heads=8,
        head_dim=128,
        tie_word_embeddings=True,
        max_position_embeddings=4096,
    )
    model = Qwen3ForCausalLM(cfg).to(torch.bfloat16)  # pure bf16
    model.config.use_cache = False

    trainer = Trainer(
        model=model,
        args=TrainingArguments(
            output_dir=opt.out,
            per_device_train_batch_size=opt.bs,
            per_device_eval_batch_size=opt.eval_bs,
            gradient_accumulation_steps=2,
            num_train_epochs=1,
            learning_rate=opt.lr,
            optim="adamw_torch",
            bf16=True,
            train_sampling_strategy="group_by_length",
            length_column_name="length",
            eval_strategy="steps",
            eval_steps=15,
            eval_accumulation_steps=2,
            save_strategy="no",
            logging_steps=5,
            report_to="none",
        ),
        train_dataset=Conversations(opt.n_train, opt.max_len, opt.vocab, 0),
        eval_dataset=Conversations(opt.n_eval, opt.max_len, opt.vocab, 1),
        data_collator=PadCollator(pad_id=0),
        compute_metrics=compute_metrics,
        preprocess_logits_for_metrics=token_predictions,
        callbacks=[MemoryCallback(os.path.join(opt.out, "log.jsonl"))],
    )
    trainer.train()
    final = trainer.evaluate()
    print("final:", {k: round(v, 4) for k, v in final.items()})
