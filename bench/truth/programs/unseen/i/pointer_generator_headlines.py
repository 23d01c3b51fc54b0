"""Headline generation: LSTM encoder-decoder with attention, copy mechanism and coverage; padded variable-length batches."""

import random

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence
from torch.utils.data import DataLoader

VOCAB, EMB, HID = 30000, 128, 256
PAD, BOS, EOS = 0, 1, 2
BATCH, DOCS = 48, 300
device = "cuda" if torch.cuda.is_available() else "cpu"
random.seed(4)
torch.manual_seed(4)


def article():
    src = torch.randint(3, VOCAB, (random.randint(120, 360),))
    k = random.randint(8, 22)
    start = random.randint(0, len(src) - k)
    return src, torch.cat([torch.tensor([BOS]), src[start : start + k], torch.tensor([EOS])])


def collate(items):
    src, tgt = zip(*items)
    lengths = torch.tensor([len(s) for s in src])
    return pad_sequence(src, True, PAD), lengths, pad_sequence(tgt, True, PAD)


class PointerGenerator(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, EMB, padding_idx=PAD)
        self.enc = nn.LSTM(EMB, HID, batch_first=True, bidirectional=True)
        self.init_h, self.init_c = nn.Linear(2 * HID, HID), nn.Linear(2 * HID, HID)
        self.wh = nn.Linear(2 * HID, 2 * HID, bias=False)
        self.ws = nn.Linear(2 * HID, 2 * HID)
        self.wc = nn.Linear(1, 2 * HID, bias=False)
        self.v = nn.Linear(2 * HID, 1, bias=False)
        self.cell = nn.LSTMCell(EMB + 2 * HID, HID)
        self.mix = nn.Linear(EMB + 4 * HID, 1)
        self.vocab = nn.Sequential(nn.Linear(3 * HID, HID), nn.Linear(HID, VOCAB))

    def encode(self, src, lengths):
        packed = pack_padded_sequence(
            self.emb(src), lengths, batch_first=True, enforce_sorted=False
        )
        out, (h, c) = self.enc(packed)
        out, _ = pad_packed_sequence(out, batch_first=True)
        h, c = torch.cat([h[0], h[1]], -1), torch.cat([c[0], c[1]], -1)
        return out, (self.init_h(h).relu(), self.init_c(c).relu())

    def step(self, tok, state, ctx, cov, enc, feats, src):
        e = self.emb(tok)
        h, c = self.cell(torch.cat([e, ctx], -1), state)
        s = torch.cat([h, c], -1)
        score = self.v(torch.tanh(feats + self.ws(s)[:, None] + self.wc(cov[..., None]))).squeeze(
            -1
        )
        attn = score.masked_fill(src == PAD, -1e9).softmax(-1)
        ctx = torch.bmm(attn[:, None], enc).squeeze(1)
        p_gen = torch.sigmoid(self.mix(torch.cat([ctx, s, e], -1)))
        p = p_gen * self.vocab(torch.cat([h, ctx], -1)).softmax(-1)
        p = p.scatter_add(1, src, (1 - p_gen) * attn)
        return p, (h, c), ctx, attn

    def forward(self, src, lengths, tgt):
        enc, state = self.encode(src, lengths)
        feats = self.wh(enc)
        ctx, cov = enc.new_zeros(len(src), 2 * HID), enc.new_zeros(src.shape)
        loss = 0.0
        for t in range(tgt.size(1) - 1):
            p, state, ctx, attn = self.step(tgt[:, t], state, ctx, cov, enc, feats, src)
            mask = (tgt[:, t + 1] != PAD).float()
            nll = -torch.log(p.gather(1, tgt[:, t + 1 : t + 2]).squeeze(1) + 1e-10)
            covloss = torch.minimum(attn, cov).sum(1)
            loss = loss + ((nll + covloss) * mask).sum()
            cov = cov + attn
        return loss / (tgt[:, 1:] != PAD).sum()

    @torch.no_grad()
    def greedy(self, src, lengths, steps=25):
        enc, state = self.encode(src, lengths)
        feats = self.wh(enc)
        ctx, cov = enc.new_zeros(len(src), 2 * HID), enc.new_zeros(src.shape)
        tok = torch.full((len(src),), BOS, device=src.device)
        out = []
        for _ in range(steps):
            p, state, ctx, attn = self.step(tok, state, ctx, cov, enc, feats, src)
            cov = cov + attn
            tok = p.argmax(-1)
            out.append(tok)
        return torch.stack(out, 1)


train = DataLoader([article() for _ in range(DOCS)], BATCH, shuffle=True, collate_fn=collate)
held = DataLoader([article() for _ in range(48)], 24, collate_fn=collate)
model = PointerGenerator().to(device)
opt = torch.optim.Adagrad(model.parameters(), lr=0.15, initial_accumulator_value=0.1)
for epoch in range(2):
    model.train()
    for i, (src, lengths, tgt) in enumerate(train):
        loss = model(src.to(device), lengths, tgt.to(device))
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 2.0)
        opt.step()
        if i % 4 == 0:
            print(f"epoch {epoch} batch {i} src {tuple(src.shape)} loss {loss.item():.3f}")
    model.eval()
    overlap = []
    for src, lengths, tgt in held:
        hyp = model.greedy(src.to(device), lengths).cpu()
        overlap += [
            len(set(h.tolist()) & set(t.tolist())) / len(set(t.tolist())) for h, t in zip(hyp, tgt)
        ]
    print(f"epoch {epoch} unigram overlap {sum(overlap) / len(overlap):.3f}")
torch.save(model.state_dict(), "pointer.pt")
