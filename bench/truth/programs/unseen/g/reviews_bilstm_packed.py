"""Bidirectional LSTM with attention pooling over reviews of very different length (packed, bucketed batches)."""

import argparse
import random
from collections import defaultdict

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence
from torch.utils.data import DataLoader, Dataset, Sampler

PAD = 0


class Reviews(Dataset):
    def __init__(self, n, vocab, max_len, seed):
        rng = random.Random(seed)
        self.items = []
        for _ in range(n):
            length = min(max_len, max(8, int(rng.lognormvariate(5.2, 0.7))))
            label = rng.randint(0, 1)
            words = torch.randint(4 + label * 50, vocab, (length,))
            self.items.append((words, label))
        self.lengths = [len(w) for w, _ in self.items]

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


class BucketBatchSampler(Sampler):
    """Batches of similar lengths; the batches themselves come in random order."""

    def __init__(self, lengths, batch_size, bucket_width=50, shuffle=True):
        self.batch_size, self.shuffle = batch_size, shuffle
        self.buckets = defaultdict(list)
        for i, n in enumerate(lengths):
            self.buckets[n // bucket_width].append(i)

    def __iter__(self):
        batches = []
        for key in sorted(self.buckets):
            ids = list(self.buckets[key])
            if self.shuffle:
                random.shuffle(ids)
            batches += [ids[i : i + self.batch_size] for i in range(0, len(ids), self.batch_size)]
        if self.shuffle:
            random.shuffle(batches)
        return iter(batches)

    def __len__(self):
        return sum((len(b) + self.batch_size - 1) // self.batch_size for b in self.buckets.values())


def collate(batch):
    batch.sort(key=lambda item: len(item[0]), reverse=True)
    words, labels = zip(*batch)
    lengths = torch.tensor([len(w) for w in words])
    return (
        pad_sequence(words, batch_first=True, padding_value=PAD),
        lengths,
        torch.tensor(labels, dtype=torch.float),
    )


class Classifier(nn.Module):
    def __init__(self, vocab, emb, hidden, layers, dropout):
        super().__init__()
        self.embedding = nn.Embedding(vocab, emb, padding_idx=PAD)
        self.lstm = nn.LSTM(
            emb, hidden, layers, batch_first=True, bidirectional=True, dropout=dropout
        )
        self.attn = nn.Sequential(nn.Linear(2 * hidden, hidden), nn.Tanh(), nn.Linear(hidden, 1))
        self.dropout = nn.Dropout(dropout)
        self.fc = nn.Linear(2 * hidden, 1)

    def forward(self, text, lengths):
        embedded = self.dropout(self.embedding(text))
        packed = pack_padded_sequence(embedded, lengths, batch_first=True)
        packed_out, (h, c) = self.lstm(packed)
        out, _ = pad_packed_sequence(packed_out, batch_first=True, padding_value=0.0)
        scores = self.attn(out).squeeze(-1)
        scores = scores.masked_fill(text == PAD, float("-inf"))
        weights = torch.softmax(scores, dim=1).unsqueeze(1)
        context = torch.bmm(weights, out).squeeze(1)
        return self.fc(self.dropout(context)).squeeze(1)


def binary_accuracy(preds, y):
    return ((torch.sigmoid(preds) > 0.5).float() == y).float().mean()


def train(model, iterator, optimizer, criterion, device, clip):
    model.train()
    epoch_loss, epoch_acc = 0, 0
    for step, (text, lengths, label) in enumerate(iterator):
        text, label = text.to(device), label.to(device)
        optimizer.zero_grad()
        predictions = model(text, lengths)
        loss = criterion(predictions, label)
        if torch.isnan(loss):
            raise RuntimeError("loss is nan at step %d" % step)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        epoch_loss += loss.item()
        epoch_acc += binary_accuracy(predictions, label).item()
        if step % 10 == 0:
            print(
                f"  step {step:3d} longest {text.shape[1]:4d} loss {loss.item():.4f} norm {norm:.3f}"
            )
    return epoch_loss / len(iterator), epoch_acc / len(iterator)


def evaluate(model, iterator, criterion, device):
    model.eval()
    epoch_loss, epoch_acc = 0, 0
    with torch.no_grad():
        for text, lengths, label in iterator:
            text, label = text.to(device), label.to(device)
            predictions = model(text, lengths)
            epoch_loss += criterion(predictions, label).item()
            epoch_acc += binary_accuracy(predictions, label).item()
    return epoch_loss / len(iterator), epoch_acc / len(iterator)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--train", type=int, default=6000)
    parser.add_argument("--valid", type=int, default=1500)
    parser.add_argument("--vocab", type=int, default=30000)
    parser.add_argument("--max-len", type=int, default=900)
    parser.add_argument("--emb", type=int, default=300)
    parser.add_argument("--hidden", type=int, default=384)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--epochs", type=int, default=2)
    args = parser.parse_args()
    random.seed(1234)
    torch.manual_seed(1234)
    device = torch.device("cuda")

    train_set = Reviews(args.train, args.vocab, args.max_len, 1)
    valid_set = Reviews(args.valid, args.vocab, args.max_len, 2)
    train_iter = DataLoader(
        train_set,
        batch_sampler=BucketBatchSampler(train_set.lengths, args.batch),
        collate_fn=collate,
        num_workers=2,
    )
    valid_iter = DataLoader(valid_set, batch_size=2 * args.batch, collate_fn=collate)

    model = Classifier(args.vocab, args.emb, args.hidden, args.layers, 0.4).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    criterion = nn.BCEWithLogitsLoss().to(device)
    best = float("inf")
    for epoch in range(args.epochs):
        tl, ta = train(model, train_iter, optimizer, criterion, device, clip=1.0)
        vl, va = evaluate(model, valid_iter, criterion, device)
        best = min(best, vl)
        print(
            f"Epoch: {epoch + 1:02} | Train {tl:.3f} / {ta * 100:.2f}% | Val {vl:.3f} / {va * 100:.2f}% | best {best:.3f}"
        )


if __name__ == "__main__":
    main()
