"""Complaint routing with nn.TransformerEncoder; texts of many lengths, padded to the longest of a batch."""

import logging
import math
import random

import numpy as np
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")

VOCAB = 40000
D_MODEL = 512
LAYERS = 8
MAX_WORDS = 400
BATCH = 64
N_TRAIN = 1280
N_TEST = 256
DEPARTMENTS = 15
PAD = 0


class Complaints(Dataset):
    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        lengths = np.clip(rng.lognormal(4.6, 0.6, n), 12, MAX_WORDS).astype(int)
        self.texts = [torch.from_numpy(rng.integers(1, VOCAB, k)) for k in lengths]
        self.labels = [int(t[0]) % DEPARTMENTS for t in self.texts]

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, i):
        return self.texts[i], self.labels[i]


def collate(items):
    texts, labels = zip(*items)
    ids = pad_sequence(texts, batch_first=True, padding_value=PAD)
    return ids, ids == PAD, torch.tensor(labels)


class Router(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, D_MODEL, padding_idx=PAD)
        position = torch.arange(MAX_WORDS)[:, None]
        div = torch.exp(torch.arange(0, D_MODEL, 2) * (-math.log(10000.0) / D_MODEL))
        pe = torch.zeros(MAX_WORDS, D_MODEL)
        pe[:, 0::2], pe[:, 1::2] = torch.sin(position * div), torch.cos(position * div)
        self.register_buffer("pe", pe)
        layer = nn.TransformerEncoderLayer(
            D_MODEL,
            nhead=8,
            dim_feedforward=4 * D_MODEL,
            dropout=0.1,
            activation="gelu",
            batch_first=True,
        )
        self.encoder = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        self.classifier = nn.Linear(D_MODEL, DEPARTMENTS)

    def forward(self, ids, padding):
        x = self.embed(ids) * math.sqrt(D_MODEL) + self.pe[: ids.size(1)]
        x = self.encoder(x, src_key_padding_mask=padding)
        keep = (~padding).unsqueeze(-1).to(x.dtype)
        return self.classifier((x * keep).sum(1) / keep.sum(1))


def main():
    random.seed(314)
    np.random.seed(314)
    torch.manual_seed(314)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    train = DataLoader(Complaints(N_TRAIN, 0), batch_size=BATCH, shuffle=True, collate_fn=collate)
    test = DataLoader(Complaints(N_TEST, 1), batch_size=BATCH, collate_fn=collate)
    model = Router().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4)
    criterion = nn.CrossEntropyLoss()

    for epoch in range(2):
        model.train()
        for i, (ids, padding, labels) in enumerate(train):
            ids, padding, labels = ids.to(device), padding.to(device), labels.to(device)
            loss = criterion(model(ids, padding), labels)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            if i % 5 == 0:
                logging.info(
                    "epoch %d batch %d width %d loss %.4f", epoch, i, ids.size(1), loss.item()
                )
        model.eval()
        right = 0
        with torch.no_grad():
            for ids, padding, labels in test:
                right += (
                    (model(ids.to(device), padding.to(device)).argmax(1).cpu() == labels)
                    .sum()
                    .item()
                )
        logging.info("epoch %d accuracy %.3f", epoch, right / N_TEST)


if __name__ == "__main__":
    main()
