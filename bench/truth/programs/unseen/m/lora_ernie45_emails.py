"""Instruction-tune a bf16 ERNIE 4.5 to answer e-mails with LoRA on all linear layers, in a plain loop; the loss counts the answers only, adapters are merged at the end."""

import argparse
import math
import random

import torch
from peft import LoraConfig, TaskType, get_peft_model
from torch.utils.data import DataLoader, Dataset
from transformers import Ernie4_5Config, Ernie4_5ForCausalLM, get_cosine_schedule_with_warmup


class Emails(Dataset):
    def __init__(self, n, longest, vocab, seed):
        rnd = random.Random(seed)
        self.rows = []
        for _ in range(n):
            question = [
                rnd.randrange(5, vocab) for _ in range(rnd.randint(longest // 4, longest // 2))
            ]
            answer = [
                rnd.randrange(5, vocab) for _ in range(rnd.randint(longest // 4, longest // 2))
            ]
            self.rows.append((question, [*answer, 2]))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        question, answer = self.rows[i]
        return question + answer, [-100] * len(question) + answer


def collate(rows):
    longest = max(len(ids) for ids, _ in rows)
    batch = {
        "input_ids": torch.zeros(len(rows), longest, dtype=torch.long),
        "attention_mask": torch.zeros(len(rows), longest, dtype=torch.long),
        "labels": torch.full((len(rows), longest), -100),
    }
    for i, (ids, labels) in enumerate(rows):
        batch["input_ids"][i, : len(ids)] = torch.tensor(ids)
        batch["attention_mask"][i, : len(ids)] = 1
        batch["labels"][i, : len(ids)] = torch.tensor(labels)
    return batch


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--device", default="cuda")
    p.add_argument("--vocab", type=int, default=103_424)
    p.add_argument("--hidden", type=int, default=2048)
    p.add_argument("--layers", type=int, default=20)
    p.add_argument("--longest", type=int, default=701)
    p.add_argument("--batch", type=int, default=6)
    p.add_argument("--emails", type=int, default=100)
    p.add_argument("--rank", type=int, default=32)
    p.add_argument("--lr", type=float, default=2e-4)
    a = p.parse_args()
    torch.manual_seed(16)
    random.seed(16)

    with torch.device(a.device):
        base = Ernie4_5ForCausalLM(
            Ernie4_5Config(
                vocab_size=a.vocab,
                hidden_size=a.hidden,
                intermediate_size=3 * a.hidden,
                num_hidden_layers=a.layers,
                num_attention_heads=a.hidden // 128,
                num_key_value_heads=max(1, a.hidden // 512),
                max_position_embeddings=4096,
                use_cache=False,
            )
        ).to(torch.bfloat16)
    model = get_peft_model(
        base,
        LoraConfig(
            task_type=TaskType.CAUSAL_LM,
            r=a.rank,
            lora_alpha=a.rank,
            lora_dropout=0.1,
            target_modules="all-linear",
        ),
    )
    model.print_trainable_parameters()
    train = DataLoader(
        Emails(a.emails, a.longest, a.vocab, 1), a.batch, shuffle=True, collate_fn=collate
    )
    test = DataLoader(Emails(a.batch * 2, a.longest, a.vocab, 2), a.batch, collate_fn=collate)
    optimizer = torch.optim.AdamW((q for q in model.parameters() if q.requires_grad), lr=a.lr)
    schedule = get_cosine_schedule_with_warmup(optimizer, 2, len(train))

    model.train()
    for step, batch in enumerate(train, 1):
        batch = {k: v.to(a.device) for k, v in batch.items()}
        loss = model(**batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.3)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        if step % 4 == 0:
            print(f"{step}/{len(train)} loss {loss.item():.4f} length {batch['labels'].size(1)}")

    model.eval()
    with torch.no_grad():
        losses = [model(**{k: v.to(a.device) for k, v in b.items()}).loss.item() for b in test]
    print("perplexity", math.exp(min(20, sum(losses) / len(losses))))
    model.save_pretrained("email-adapter")
    merged = model.merge_and_unload()
    print(f"merged: {merged.num_parameters() / 1e9:.2f}B")


if __name__ == "__main__":
    main()
