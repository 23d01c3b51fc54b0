"""Sequence to sequence with LSTMs and teacher forcing by chance, as in the tutorials; loops over words in Python."""

import argparse
import math
import random
import time

import torch
from torch import nn, optim

parser = argparse.ArgumentParser()
parser.add_argument("--pairs", type=int, default=6100)
parser.add_argument("--max_len", type=int, default=40)
parser.add_argument("--vocab", type=int, default=16000)
parser.add_argument("--emb_dim", type=int, default=512)
parser.add_argument("--hid_dim", type=int, default=1024)
parser.add_argument("--n_layers", type=int, default=2)
parser.add_argument("--batch_size", type=int, default=128)
parser.add_argument("--epochs", type=int, default=1)
args = parser.parse_args()
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
PAD, SOS, EOS = 0, 1, 2


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(args.vocab, args.emb_dim, padding_idx=PAD)
        self.rnn = nn.LSTM(args.emb_dim, args.hid_dim, args.n_layers, dropout=0.5)
        self.dropout = nn.Dropout(0.5)

    def forward(self, src):
        _outputs, (hidden, cell) = self.rnn(self.dropout(self.embedding(src)))
        return hidden, cell


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(args.vocab, args.emb_dim, padding_idx=PAD)
        self.rnn = nn.LSTM(args.emb_dim, args.hid_dim, args.n_layers, dropout=0.5)
        self.fc_out = nn.Linear(args.hid_dim, args.vocab)
        self.dropout = nn.Dropout(0.5)

    def forward(self, word, hidden, cell):
        embedded = self.dropout(self.embedding(word.unsqueeze(0)))
        output, (hidden, cell) = self.rnn(embedded, (hidden, cell))
        return self.fc_out(output.squeeze(0)), hidden, cell


class Seq2Seq(nn.Module):
    def __init__(self, encoder, decoder):
        super().__init__()
        self.encoder, self.decoder = encoder, decoder

    def forward(self, src, trg, teacher_forcing_ratio=0.5):
        trg_len, batch_size = trg.shape
        outputs = torch.zeros(trg_len, batch_size, args.vocab).to(device)
        hidden, cell = self.encoder(src)
        word = trg[0, :]
        for t in range(1, trg_len):
            output, hidden, cell = self.decoder(word, hidden, cell)
            outputs[t] = output
            teacher_force = random.random() < teacher_forcing_ratio
            word = trg[t] if teacher_force else output.argmax(1)
        return outputs


def make_pairs(count):
    rng = random.Random(3)
    pairs = []
    for _ in range(count):
        words = [rng.randrange(3, args.vocab) for _ in range(rng.randint(4, args.max_len - 2))]
        pairs.append(([SOS, *words, EOS], [SOS, *reversed(words), EOS]))
    return pairs


def iterate(pairs):
    """Batches of about the same length, as a bucket iterator gives them."""
    pairs = sorted(pairs, key=lambda pair: len(pair[0]))
    batches = [pairs[i : i + args.batch_size] for i in range(0, len(pairs), args.batch_size)]
    random.shuffle(batches)
    for batch in batches:
        sides = []
        for side in zip(*batch):
            rows = [torch.tensor(row) for row in side]
            sides.append(nn.utils.rnn.pad_sequence(rows, padding_value=PAD).to(device))
        yield sides


def run(model, pairs, criterion, optimizer=None):
    model.train(optimizer is not None)
    total = count = 0
    for src, trg in iterate(pairs):
        output = model(src, trg, 0.5 if optimizer else 0)
        loss = criterion(output[1:].view(-1, args.vocab), trg[1:].reshape(-1))
        if optimizer:
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1)
            optimizer.step()
        total, count = total + loss.item(), count + 1
    return total / count


random.seed(1234)
torch.manual_seed(1234)
model = Seq2Seq(Encoder(), Decoder()).to(device)
for p in model.parameters():
    nn.init.uniform_(p.data, -0.08, 0.08)
optimizer = optim.Adam(model.parameters())
criterion = nn.CrossEntropyLoss(ignore_index=PAD)
pairs = make_pairs(args.pairs)
cut = int(len(pairs) * 0.9)
best = float("inf")
for epoch in range(args.epochs):
    start = time.time()
    train_loss = run(model, pairs[:cut], criterion, optimizer)
    with torch.no_grad():
        valid_loss = run(model, pairs[cut:], criterion)
    if valid_loss < best:
        best = valid_loss
        torch.save(model.state_dict(), "seq2seq.pt")
    print(f"epoch {epoch + 1:02} {time.time() - start:.0f} s: {train_loss:.3f} {valid_loss:.3f}")
    print(f"perplexity {math.exp(min(train_loss, 20)):.1f} {math.exp(min(valid_loss, 20)):.1f}")
