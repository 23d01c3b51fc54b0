"""Sentence classifier whose batches hold about the same number of tokens, not of sentences."""

import argparse
import random

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset, Sampler


class Reviews(Dataset):
    words = [
        "good",
        "bad",
        "fine",
        "awful",
        "film",
        "plot",
        "actor",
        "scene",
        "slow",
        "fast",
        "loud",
        "quiet",
        "deep",
        "flat",
        "long",
        "short",
    ]

    def __init__(self, count, longest, seed):
        rng = random.Random(seed)
        self.items = []
        for _ in range(count):
            n = min(longest, max(8, int(rng.lognormvariate(4.2, 0.7))))
            text = " ".join(rng.choice(self.words) for _ in range(n))
            self.items.append((text.encode()[:longest], rng.randrange(2)))
        self.lengths = [len(text) for text, _ in self.items]

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        text, label = self.items[i]
        return torch.tensor(list(text), dtype=torch.long) + 1, label


class TokenBatchSampler(Sampler):
    """Sorts by length inside of pools and cuts where the padded batch would pass `max_tokens`."""

    def __init__(self, lengths, max_tokens, pool=512, shuffle=True, seed=0):
        self.lengths, self.max_tokens, self.pool = lengths, max_tokens, pool
        self.shuffle, self.seed, self.epoch = shuffle, seed, 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __iter__(self):
        rng = random.Random(self.seed + self.epoch)
        order = list(range(len(self.lengths)))
        if self.shuffle:
            rng.shuffle(order)
        batches = []
        for start in range(0, len(order), self.pool):
            chunk = sorted(order[start : start + self.pool], key=lambda i: self.lengths[i])
            batch, longest = [], 0
            for i in chunk:
                longest = max(longest, self.lengths[i])
                if batch and longest * (len(batch) + 1) > self.max_tokens:
                    batches.append(batch)
                    batch, longest = [], self.lengths[i]
                batch.append(i)
            if batch:
                batches.append(batch)
        if self.shuffle:
            rng.shuffle(batches)
        yield from batches


def collate(items):
    texts, labels = zip(*items, strict=True)
    ids = pad_sequence(texts, batch_first=True, padding_value=0)
    return ids, ids == 0, torch.tensor(labels)


class Classifier(nn.Module):
    def __init__(self, dim, layers, longest):
        super().__init__()
        self.embed = nn.Embedding(257, dim, padding_idx=0)
        self.position = nn.Parameter(torch.zeros(longest, dim))
        layer = nn.TransformerEncoderLayer(
            dim,
            dim // 64,
            dim * 4,
            dropout=0.1,
            activation="gelu",
            batch_first=True,
            norm_first=True,
        )
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.out = nn.Linear(dim, 2)

    def forward(self, ids, padding):
        x = self.embed(ids) + self.position[: ids.size(1)]
        x = self.encoder(x, src_key_padding_mask=padding)
        keep = (~padding).unsqueeze(-1).to(x.dtype)
        return self.out((x * keep).sum(1) / keep.sum(1).clamp(min=1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=3000)
    parser.add_argument("--longest", type=int, default=768)
    parser.add_argument("--max-tokens", type=int, default=24000)
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--seed", type=int, default=11)
    args = parser.parse_args()
    random.seed(args.seed)
    torch.manual_seed(args.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    train = Reviews(args.count, args.longest, args.seed)
    sampler = TokenBatchSampler(train.lengths, args.max_tokens, seed=args.seed)
    loader = DataLoader(
        train, batch_sampler=sampler, collate_fn=collate, num_workers=3, pin_memory=True
    )
    test = Reviews(args.count // 5, args.longest, args.seed + 1)
    test_sampler = TokenBatchSampler(test.lengths, args.max_tokens * 2, shuffle=False)
    test_loader = DataLoader(test, batch_sampler=test_sampler, collate_fn=collate)

    model = Classifier(args.dim, args.layers, args.longest).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-4, betas=(0.9, 0.98))
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        model.train()
        for step, (ids, padding, labels) in enumerate(loader):
            ids, padding, labels = ids.to(device), padding.to(device), labels.to(device)
            loss = nn.functional.cross_entropy(model(ids, padding), labels)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_value_(model.parameters(), 1.0)
            optimizer.step()
            if step % 10 == 0:
                print(f"{epoch}/{step}: {tuple(ids.shape)} loss {loss.item():.4f}")
        model.eval()
        right = 0
        with torch.no_grad():
            for ids, padding, labels in test_loader:
                logits = model(ids.to(device), padding.to(device))
                right += (logits.argmax(1).cpu() == labels).sum().item()
        print(f"epoch {epoch}: accuracy {right / len(test):.3f}")


if __name__ == "__main__":
    main()
