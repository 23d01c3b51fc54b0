"""LoRA instruction tuning of a Granite-style 1B decoder in bf16; writes a few answers at the end of each epoch."""

import argparse
import time

import torch
from peft import LoraConfig, TaskType, get_peft_model
from torch.utils.data import DataLoader, Dataset
from transformers import GraniteConfig, GraniteForCausalLM, get_cosine_schedule_with_warmup


class Instructions(Dataset):
    """prompt + answer in one row of fixed length; only the answer counts for the loss"""

    def __init__(self, n, length, vocab, seed):
        g = torch.Generator().manual_seed(seed)
        self.ids = torch.randint(5, vocab, (n, length), generator=g)
        split = torch.randint(length // 4, length // 2, (n, 1), generator=g)
        places = torch.arange(length)[None]
        self.ids = torch.where(places >= split, self.ids.roll(7, dims=1), self.ids)
        self.labels = self.ids.masked_fill(places < split, -100)

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return self.ids[i], self.labels[i]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--hidden", type=int, default=2048)
    p.add_argument("--layers", type=int, default=16)
    p.add_argument("--intermediate", type=int, default=8192)
    p.add_argument("--vocab", type=int, default=49155)
    p.add_argument("--length", type=int, default=512)
    p.add_argument("--rows", type=int, default=96)
    p.add_argument("--batch", type=int, default=8)
    p.add_argument("--accumulate", type=int, default=3)
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--rank", type=int, default=16)
    a = p.parse_args()
    torch.manual_seed(31)
    device = torch.device("cuda")

    config = GraniteConfig(
        vocab_size=a.vocab,
        hidden_size=a.hidden,
        intermediate_size=a.intermediate,
        num_hidden_layers=a.layers,
        num_attention_heads=32,
        num_key_value_heads=8,
        max_position_embeddings=4096,
        pad_token_id=0,
        bos_token_id=0,
        eos_token_id=0,
        embedding_multiplier=12.0,
        residual_multiplier=0.22,
        attention_multiplier=0.015625,
        logits_scaling=8.0,
        tie_word_embeddings=True,
    )
    with device:
        base = GraniteForCausalLM(config).to(torch.bfloat16)
    model = get_peft_model(
        base,
        LoraConfig(
            task_type=TaskType.CAUSAL_LM,
            r=a.rank,
            lora_alpha=2 * a.rank,
            lora_dropout=0.05,
            target_modules=[
                "q_proj",
                "k_proj",
                "v_proj",
                "o_proj",
                "gate_proj",
                "up_proj",
                "down_proj",
            ],
        ),
    )
    model.to(device)
    model.print_trainable_parameters()

    train = DataLoader(Instructions(a.rows, a.length, a.vocab, 0), batch_size=a.batch, shuffle=True)
    valid = DataLoader(Instructions(a.rows // 4, a.length, a.vocab, 1), batch_size=2 * a.batch)
    optimizer = torch.optim.AdamW([q for q in model.parameters() if q.requires_grad], lr=2e-4)
    updates = a.epochs * len(train) // a.accumulate
    schedule = get_cosine_schedule_with_warmup(optimizer, 2, updates)

    for epoch in range(a.epochs):
        model.train()
        began, running = time.time(), 0.0
        for step, (ids, labels) in enumerate(train):
            ids, labels = ids.to(device), labels.to(device)
            loss = model(
                input_ids=ids, attention_mask=torch.ones_like(ids), labels=labels, use_cache=False
            ).loss
            (loss / a.accumulate).backward()
            running += loss.item()
            if (step + 1) % a.accumulate == 0:
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
        model.eval()
        with torch.no_grad():
            losses = [
                model(input_ids=i.to(device), labels=l.to(device), use_cache=False).loss.item()
                for i, l in valid
            ]
            prompt = next(iter(valid))[0][:4, : a.length // 4].to(device)
            answer = model.generate(
                input_ids=prompt,
                attention_mask=torch.ones_like(prompt),
                max_new_tokens=24,
                do_sample=True,
                top_p=0.9,
            )
        print(
            f"epoch {epoch} train {running / len(train):.3f} valid {sum(losses) / len(losses):.3f} "
            f"{time.time() - began:.1f}s; wrote {answer.shape[1] - prompt.shape[1]} tokens"
        )
        model.save_pretrained(f"granite-lora/epoch-{epoch}")


if __name__ == "__main__":
    main()
