"""Continue-pretrain a small OLMo-2 on documents of many lengths, grouped by length, own optimizer and OneCycle."""

import argparse

import numpy as np
import torch
from datasets import Dataset
from torch.optim.lr_scheduler import OneCycleLR
from transformers import Olmo2Config, Olmo2ForCausalLM, Trainer, TrainingArguments, set_seed

PAD = 1


def documents(n, shortest, longest, vocab, seed):
    rng = np.random.default_rng(seed)
    lengths = np.exp(rng.uniform(np.log(shortest), np.log(longest), n)).astype(int)
    rows = [(rng.random(k) ** 2 * (vocab - 10) + 10).astype(int).tolist() for k in lengths]
    return Dataset.from_dict({"input_ids": rows, "length": [len(r) for r in rows]})


def collate(rows):
    longest = max(len(r["input_ids"]) for r in rows)
    longest = (longest + 7) // 8 * 8
    ids = torch.full((len(rows), longest), PAD)
    mask = torch.zeros(len(rows), longest, dtype=torch.long)
    for i, r in enumerate(rows):
        ids[i, : len(r["input_ids"])] = torch.tensor(r["input_ids"])
        mask[i, : len(r["input_ids"])] = 1
    return {"input_ids": ids, "attention_mask": mask, "labels": ids.masked_fill(mask == 0, -100)}


def param_groups(model, weight_decay):
    decay = [p for p in model.parameters() if p.dim() >= 2]
    plain = [p for p in model.parameters() if p.dim() < 2]
    return [{"params": decay, "weight_decay": weight_decay}, {"params": plain, "weight_decay": 0.0}]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--docs", type=int, default=240)
    p.add_argument("--shortest", type=int, default=64)
    p.add_argument("--longest", type=int, default=768)
    p.add_argument("--batch", type=int, default=8)
    p.add_argument("--hidden", type=int, default=1024)
    p.add_argument("--layers", type=int, default=12)
    p.add_argument("--vocab", type=int, default=50304)
    a = p.parse_args()
    set_seed(99)

    config = Olmo2Config(
        vocab_size=a.vocab,
        hidden_size=a.hidden,
        intermediate_size=4 * a.hidden,
        num_hidden_layers=a.layers,
        num_attention_heads=16,
        num_key_value_heads=16,
        max_position_embeddings=2048,
        pad_token_id=PAD,
        use_cache=False,
    )
    model = Olmo2ForCausalLM(config)
    if torch.cuda.is_available():
        model = model.to("cuda")
    train_set = documents(a.docs, a.shortest, a.longest, a.vocab, 0)
    valid_set = documents(a.docs // 8, a.shortest, a.longest // 2, a.vocab, 1)

    steps = -(-a.docs // a.batch)
    optimizer = torch.optim.AdamW(param_groups(model, 0.1), lr=4e-4, betas=(0.9, 0.95), eps=1e-8)
    scheduler = OneCycleLR(optimizer, max_lr=4e-4, total_steps=steps, pct_start=0.2)

    args = TrainingArguments(
        output_dir="olmo2-grouped",
        num_train_epochs=1,
        per_device_train_batch_size=a.batch,
        per_device_eval_batch_size=4,
        train_sampling_strategy="group_by_length",
        length_column_name="length",
        bf16=True,
        prediction_loss_only=True,
        eval_strategy="epoch",
        save_strategy="no",
        logging_steps=5,
        report_to="none",
    )
    trainer = Trainer(
        model=model,
        args=args,
        data_collator=collate,
        train_dataset=train_set,
        eval_dataset=valid_set,
        optimizers=(optimizer, scheduler),
    )
    trainer.train()
    print(trainer.state.log_history[-1])


if __name__ == "__main__":
    main()
