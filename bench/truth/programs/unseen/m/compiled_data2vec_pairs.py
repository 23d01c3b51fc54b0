"""Score how alike two sentences are (regression) with a data2vec-text encoder under torch.compile; bf16 autocast, fixed length of 333 tokens, layer-wise learning rates."""

import argparse
import time

import torch
from torch.utils.data import DataLoader, Dataset
from transformers import Data2VecTextConfig, Data2VecTextForSequenceClassification


class SentencePairs(Dataset):
    def __init__(self, n, length, vocab, seed):
        g = torch.Generator().manual_seed(seed)
        self.ids = torch.randint(4, vocab, (n, length), generator=g)
        self.ids[:, 0] = 0
        used = torch.randint(length // 2, length + 1, (n,), generator=g)
        self.mask = (torch.arange(length)[None] < used[:, None]).long()
        self.ids[self.mask == 0] = 1
        self.score = torch.rand(n, generator=g) * 5

    def __len__(self):
        return len(self.score)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i], "attention_mask": self.mask[i], "labels": self.score[i]}


def layerwise(model, lr, decay):
    encoder = model.data2vec_text.encoder.layer
    groups = [
        {"params": model.classifier.parameters(), "lr": lr},
        {
            "params": model.data2vec_text.embeddings.parameters(),
            "lr": lr * decay ** (len(encoder) + 1),
        },
    ]
    for depth, layer in enumerate(encoder):
        groups.append({"params": layer.parameters(), "lr": lr * decay ** (len(encoder) - depth)})
    return groups


def pearson(a, b):
    a, b = a - a.mean(), b - b.mean()
    return ((a * b).sum() / (a.norm() * b.norm() + 1e-8)).item()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--device", default="cuda")
    p.add_argument("--vocab", type=int, default=50_265)
    p.add_argument("--hidden", type=int, default=1024)
    p.add_argument("--layers", type=int, default=4)
    p.add_argument("--length", type=int, default=333)
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--pairs", type=int, default=1300)
    p.add_argument("--lr", type=float, default=5e-5)
    p.add_argument("--no-compile", action="store_true")
    a = p.parse_args()
    torch.manual_seed(55)

    config = Data2VecTextConfig(
        vocab_size=a.vocab,
        hidden_size=a.hidden,
        num_hidden_layers=a.layers,
        num_attention_heads=a.hidden // 64,
        intermediate_size=4 * a.hidden,
        max_position_embeddings=a.length + 2,
        type_vocab_size=1,
        num_labels=1,
        problem_type="regression",
    )
    model = Data2VecTextForSequenceClassification(config).to(a.device)
    optimizer = torch.optim.AdamW(layerwise(model, a.lr, 0.9), weight_decay=0.01)
    run = model if a.no_compile else torch.compile(model)
    train = DataLoader(
        SentencePairs(a.pairs, a.length, a.vocab, 1), a.batch, shuffle=True, drop_last=True
    )
    valid = DataLoader(SentencePairs(2 * a.batch, a.length, a.vocab, 2), a.batch)

    run.train()
    for step, batch in enumerate(train):
        began = time.perf_counter()
        batch = {k: v.to(a.device) for k, v in batch.items()}
        with torch.autocast(a.device, torch.bfloat16):
            loss = run(**batch).loss
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 4 == 0:
            print(f"{step} mse {loss.item():.4f} {time.perf_counter() - began:.2f} s")

    # evaluation runs the plain model: compiling it a second time is not worth it
    model.eval()
    guesses, truths = [], []
    with torch.no_grad(), torch.autocast(a.device, torch.bfloat16):
        for batch in valid:
            truths.append(batch.pop("labels"))
            out = model(**{k: v.to(a.device) for k, v in batch.items()})
            guesses.append(out.logits.squeeze(-1).float().cpu())
    print("pearson", pearson(torch.cat(guesses), torch.cat(truths)))


if __name__ == "__main__":
    main()
