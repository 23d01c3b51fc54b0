"""BiLSTM-CRF sequence labeller with a character CNN; batches padded to the longest."""

import argparse
import random
from collections import Counter

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence
from torch.utils.data import DataLoader


class CRF(nn.Module):
    def __init__(self, tags):
        super().__init__()
        self.trans = nn.Parameter(torch.randn(tags, tags) * 0.1)
        self.start, self.end = nn.Parameter(torch.zeros(tags)), nn.Parameter(torch.zeros(tags))

    def nll(self, emit, tags, mask):
        b, t, _ = emit.shape
        lengths = mask.sum(1) - 1
        rows = torch.arange(b, device=emit.device)
        gold = self.start[tags[:, 0]] + emit[rows, 0, tags[:, 0]] + self.end[tags[rows, lengths]]
        step = (
            emit.gather(2, tags[..., None]).squeeze(2)[:, 1:]
            + self.trans[tags[:, :-1], tags[:, 1:]]
        )
        gold = gold + (step * mask[:, 1:]).sum(1)
        alpha = self.start + emit[:, 0]
        for k in range(1, t):
            new = torch.logsumexp(alpha[:, :, None] + self.trans + emit[:, k, None], 1)
            alpha = torch.where(mask[:, k, None], new, alpha)
        return (torch.logsumexp(alpha + self.end, 1) - gold).mean()

    def decode(self, emit, mask):
        score, back = self.start + emit[:, 0], []
        for k in range(1, emit.shape[1]):
            best, idx = (score[:, :, None] + self.trans).max(1)
            score = torch.where(mask[:, k, None], best + emit[:, k], score)
            back.append(
                torch.where(mask[:, k, None], idx, torch.arange(emit.shape[2], device=emit.device))
            )
        tag = (score + self.end).argmax(1)
        path = [tag]
        for idx in reversed(back):
            tag = idx.gather(1, tag[:, None]).squeeze(1)
            path.append(tag)
        return torch.stack(path[::-1], 1)


class Tagger(nn.Module):
    def __init__(self, words, chars, tags, dim=200, hidden=384):
        super().__init__()
        self.word, self.char = (
            nn.Embedding(words, dim, padding_idx=0),
            nn.Embedding(chars, 48, padding_idx=0),
        )
        self.cnn = nn.Conv1d(48, 192, 3, padding=1)
        self.drop = nn.Dropout(0.4)
        self.lstm = nn.LSTM(dim + 192, hidden, 2, batch_first=True, bidirectional=True, dropout=0.3)
        self.out, self.crf = nn.Linear(2 * hidden, tags), CRF(tags)

    def emissions(self, w, c, lengths):
        b, t, k = c.shape
        ch = F.relu(self.cnn(self.char(c.view(b * t, k)).transpose(1, 2))).amax(2).view(b, t, -1)
        x = self.drop(torch.cat([self.word(w), ch], -1))
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        h, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        return self.out(self.drop(h))


def sentences(n, words, chars, tags, seed):
    rng = random.Random(seed)
    g = torch.Generator().manual_seed(seed)
    out = []
    for _ in range(n):
        t = min(200, max(3, int(rng.expovariate(1 / 24))))
        out.append(
            (
                torch.randint(1, words, (t,), generator=g),
                torch.randint(1, chars, (t, 14), generator=g),
                torch.randint(0, tags, (t,), generator=g),
            )
        )
    return out


def collate(batch):
    w, c, y = zip(*batch)
    lengths = torch.tensor([len(s) for s in w])
    mask = torch.arange(lengths.max())[None] < lengths[:, None]
    return pad_sequence(w, True), pad_sequence(c, True), pad_sequence(y, True), lengths, mask


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--sentences", type=int, default=4600)
    ap.add_argument("--batch", type=int, default=512)
    ap.add_argument("--words", type=int, default=46000)
    ap.add_argument("--tags", type=int, default=17)
    ap.add_argument("--epochs", type=int, default=2)
    args = ap.parse_args()
    device = torch.device("cuda")
    train = DataLoader(
        sentences(args.sentences, args.words, 90, args.tags, 0),
        args.batch,
        shuffle=True,
        collate_fn=collate,
    )
    val = DataLoader(
        sentences(args.sentences // 8, args.words, 90, args.tags, 1), 100, collate_fn=collate
    )
    model = Tagger(args.words, 90, args.tags).to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.015, momentum=0.9)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda e: 1 / (1 + 0.05 * e))
    for epoch in range(args.epochs):
        model.train()
        for i, (w, c, y, lengths, mask) in enumerate(train):
            w, c, y, mask = w.to(device), c.to(device), y.to(device), mask.to(device)
            loss = model.crf.nll(model.emissions(w, c, lengths), y, mask)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            opt.step()
            if i % 5 == 0:
                print(f"epoch {epoch} {i}/{len(train)} longest {w.shape[1]} nll {loss.item():.3f}")
        sched.step()
        model.eval()
        right = total = 0
        guesses = Counter()
        with torch.no_grad():
            for w, c, y, lengths, mask in val:
                emit = model.emissions(w.to(device), c.to(device), lengths)
                pred = model.crf.decode(emit, mask.to(device)).cpu()
                right += ((pred == y) & mask).sum().item()
                total += mask.sum().item()
                guesses.update(pred[mask].tolist())
        print(f"epoch {epoch} tag accuracy {right / total:.3f} commonest {guesses.most_common(3)}")
    torch.save(model.state_dict(), "bilstm_crf.pt")


if __name__ == "__main__":
    main()
