"""Long document classification: Longformer with global attention on the first token, accelerate with bf16."""

import argparse

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset
from tqdm import tqdm
from transformers import (
    LongformerConfig,
    LongformerForSequenceClassification,
    get_linear_schedule_with_warmup,
)


def documents(n, length, vocab, labels, seed):
    g = torch.Generator().manual_seed(seed)
    ids = torch.randint(10, vocab, (n, length), generator=g)
    y = torch.randint(0, labels, (n,), generator=g)
    # a few words that give the label away, spread over the whole text
    places = torch.randint(1, length, (n, 40), generator=g)
    ids.scatter_(1, places, (y + 10)[:, None].expand(-1, 40))
    ids[:, 0] = 0
    return TensorDataset(ids, y)


def run_eval(accelerator, model, loader):
    model.eval()
    hits = seen = 0
    for ids, y in loader:
        marks = torch.zeros_like(ids)
        marks[:, 0] = 1
        with torch.no_grad():
            logits = model(
                input_ids=ids, attention_mask=torch.ones_like(ids), global_attention_mask=marks
            ).logits
        guess, gold = accelerator.gather_for_metrics((logits.argmax(-1), y))
        hits += (guess == gold).sum().item()
        seen += gold.numel()
    model.train()
    return hits / seen


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--length", type=int, default=2048)
    p.add_argument("--window", type=int, default=256)
    p.add_argument("--hidden", type=int, default=768)
    p.add_argument("--layers", type=int, default=8)
    p.add_argument("--train", type=int, default=110)
    p.add_argument("--valid", type=int, default=30)
    p.add_argument("--batch", type=int, default=4)
    p.add_argument("--vocab", type=int, default=50265)
    a = p.parse_args()

    accelerator = Accelerator(mixed_precision="bf16")
    config = LongformerConfig(
        vocab_size=a.vocab,
        hidden_size=a.hidden,
        num_hidden_layers=a.layers,
        num_attention_heads=12,
        intermediate_size=4 * a.hidden,
        attention_window=[a.window] * a.layers,
        max_position_embeddings=a.length + 2,
        type_vocab_size=1,
        num_labels=8,
    )
    model = LongformerForSequenceClassification(config)
    no_decay = ("bias", "LayerNorm.weight")
    groups = [
        {
            "params": [q for n, q in model.named_parameters() if not n.endswith(no_decay)],
            "weight_decay": 0.01,
        },
        {
            "params": [q for n, q in model.named_parameters() if n.endswith(no_decay)],
            "weight_decay": 0.0,
        },
    ]
    optimizer = torch.optim.AdamW(groups, lr=5e-5)
    train = DataLoader(
        documents(a.train, a.length, a.vocab, 8, 0), batch_size=a.batch, shuffle=True
    )
    valid = DataLoader(documents(a.valid, a.length, a.vocab, 8, 1), batch_size=2 * a.batch)
    schedule = get_linear_schedule_with_warmup(optimizer, 3, len(train))
    model, optimizer, train, valid, schedule = accelerator.prepare(
        model, optimizer, train, valid, schedule
    )

    bar = tqdm(total=len(train), disable=not accelerator.is_local_main_process)
    for ids, y in train:
        marks = torch.zeros_like(ids)
        marks[:, 0] = 1
        out = model(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            global_attention_mask=marks,
            labels=y,
        )
        accelerator.backward(out.loss)
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad(set_to_none=True)
        bar.set_postfix(loss=f"{out.loss.item():.3f}")
        bar.update()
    bar.close()
    accelerator.print("accuracy", run_eval(accelerator, model, valid))
    accelerator.save_state("longformer-state")


if __name__ == "__main__":
    main()
