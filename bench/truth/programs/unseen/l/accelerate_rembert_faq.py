"""Find answers in FAQ pages: RemBERT for span questions under Accelerate (bf16, accumulation over two batches, save_state, gathered metrics)."""

import argparse
import os
import tempfile

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, Dataset
from transformers import RemBertConfig, RemBertForQuestionAnswering, get_linear_schedule_with_warmup


class FAQ(Dataset):
    def __init__(self, n, length, vocab, seed):
        g = torch.Generator().manual_seed(seed)
        self.ids = torch.randint(400, vocab, (n, length), generator=g)
        self.question = torch.randint(8, length // 8, (n,), generator=g)
        self.start = self.question + 2 + torch.randint(0, length // 2, (n,), generator=g)
        self.end = (self.start + torch.randint(1, 12, (n,), generator=g)).clamp(max=length - 1)

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        kinds = (torch.arange(self.ids.shape[1]) >= self.question[i]).long()
        return {
            "input_ids": self.ids[i],
            "token_type_ids": kinds,
            "attention_mask": torch.ones_like(kinds),
            "start_positions": self.start[i],
            "end_positions": self.end[i],
        }


def evaluate(model, loader, accelerator):
    model.eval()
    exact = total = 0
    for batch in loader:
        with torch.no_grad():
            out = model(**{k: v for k, v in batch.items() if not k.endswith("positions")})
        s, e = out.start_logits.argmax(-1), out.end_logits.argmax(-1)
        s, e, ts, te = accelerator.gather_for_metrics(
            (s, e, batch["start_positions"], batch["end_positions"])
        )
        exact += ((s == ts) & (e == te)).sum().item()
        total += len(ts)
    model.train()
    return exact / total


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--mixed-precision", default="bf16")
    p.add_argument("--hidden", type=int, default=768)
    p.add_argument("--layers", type=int, default=12)
    p.add_argument("--vocab", type=int, default=120_000)
    p.add_argument("--length", type=int, default=384)
    p.add_argument("--batch", type=int, default=24)
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--batches", type=int, default=24)
    args = p.parse_args()
    accelerator = Accelerator(mixed_precision=args.mixed_precision, gradient_accumulation_steps=2)
    set_seed(2024)
    model = RemBertForQuestionAnswering(
        RemBertConfig(
            vocab_size=args.vocab,
            hidden_size=args.hidden,
            num_hidden_layers=args.layers,
            num_attention_heads=args.hidden // 64,
            intermediate_size=args.hidden * 4,
            input_embedding_size=256,
            hidden_dropout_prob=0.1,
            attention_probs_dropout_prob=0.1,
        )
    )
    train = DataLoader(
        FAQ(args.batch * args.batches, args.length, args.vocab, 1), args.batch, shuffle=True
    )
    valid = DataLoader(FAQ(args.batch * 5, args.length, args.vocab, 2), args.batch * 2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5, weight_decay=0.01)
    total = args.epochs * args.batches // 2
    schedule = get_linear_schedule_with_warmup(optimizer, total // 10, total)
    model, optimizer, train, valid, schedule = accelerator.prepare(
        model, optimizer, train, valid, schedule
    )

    best = -1.0
    with tempfile.TemporaryDirectory() as folder:
        for epoch in range(args.epochs):
            losses = []
            for batch in train:
                with accelerator.accumulate(model):
                    loss = model(**batch).loss
                    accelerator.backward(loss)
                    if accelerator.sync_gradients:
                        accelerator.clip_grad_norm_(model.parameters(), 1.0)
                    optimizer.step()
                    schedule.step()
                    optimizer.zero_grad()
                losses.append(loss.detach())
            exact = evaluate(model, valid, accelerator)
            accelerator.print(
                f"epoch {epoch}: loss {torch.stack(losses).mean().item():.3f} exact {exact:.3f}"
            )
            if exact > best:
                best = exact
                accelerator.save_state(os.path.join(folder, "best"))
    accelerator.end_training()


if __name__ == "__main__":
    main()
