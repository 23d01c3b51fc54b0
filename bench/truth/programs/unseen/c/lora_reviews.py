"""LoRA on a Mistral of 1.3 billion parameters that rates reviews: own loop in bf16, ragged batches, adapter saved."""

import argparse
import random

import torch
from peft import LoraConfig, TaskType, get_peft_model
from torch.utils.data import DataLoader
from transformers import MistralConfig, MistralForSequenceClassification


def reviews(count, vocab, longest, stars, seed):
    rng = random.Random(seed)
    out = []
    for _ in range(count):
        star = rng.randrange(stars)
        words = [rng.randrange(10 + 50 * star, vocab) for _ in range(rng.randint(20, longest))]
        out.append((words, star))
    return out


class Collate:
    def __init__(self, multiple):
        self.multiple = multiple

    def __call__(self, rows):
        longest = max(len(words) for words, _ in rows)
        width = -(-longest // self.multiple) * self.multiple
        ids = torch.zeros(len(rows), width, dtype=torch.long)
        mask = torch.zeros_like(ids)
        for i, (words, _) in enumerate(rows):
            ids[i, : len(words)] = torch.tensor(words)
            mask[i, : len(words)] = 1
        return ids, mask, torch.tensor([star for _, star in rows])


def build(a):
    config = MistralConfig(
        vocab_size=a.vocab,
        hidden_size=a.hidden,
        intermediate_size=int(a.hidden * 3.5),
        num_hidden_layers=a.layers,
        num_attention_heads=max(2, a.hidden // 128),
        num_key_value_heads=max(1, a.hidden // 512),
        max_position_embeddings=2048,
        sliding_window=None,
        num_labels=5,
        pad_token_id=0,
    )
    model = MistralForSequenceClassification(config).to(torch.bfloat16)
    lora = LoraConfig(
        task_type=TaskType.SEQ_CLS,
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
    )
    return get_peft_model(model, lora)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--vocab", type=int, default=32000)
    p.add_argument("--hidden", type=int, default=2048)
    p.add_argument("--layers", type=int, default=18)
    p.add_argument("--rank", type=int, default=16)
    p.add_argument("--longest", type=int, default=256)
    p.add_argument("--count", type=int, default=240)
    p.add_argument("--batch", type=int, default=8)
    p.add_argument("--epochs", type=int, default=1)
    a = p.parse_args()
    torch.manual_seed(17)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    with torch.device(device):
        model = build(a)
    model.print_trainable_parameters()
    collate = Collate(32)
    train = DataLoader(
        reviews(a.count, a.vocab, a.longest, 5, 1),
        a.batch,
        shuffle=True,
        collate_fn=collate,
    )
    test = DataLoader(
        reviews(a.count // 4, a.vocab, a.longest, 5, 2), 4 * a.batch, collate_fn=collate
    )
    optimizer = torch.optim.AdamW([q for q in model.parameters() if q.requires_grad], lr=2e-4)
    for epoch in range(a.epochs):
        model.train()
        for step, (ids, mask, star) in enumerate(train):
            out = model(
                input_ids=ids.to(device),
                attention_mask=mask.to(device),
                labels=star.to(device),
            )
            out.loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.3)
            optimizer.step()
            optimizer.zero_grad()
            if step % 10 == 0:
                print(f"{epoch}:{step} {out.loss.item():.3f}")
        model.eval()
        right = 0
        with torch.no_grad():
            for ids, mask, star in test:
                logits = model(input_ids=ids.to(device), attention_mask=mask.to(device)).logits
                right += (logits.argmax(-1).cpu() == star).sum().item()
        print(f"epoch {epoch}: right {right / len(test.dataset):.3f}")
    model.save_pretrained("adapter")


if __name__ == "__main__":
    main()
