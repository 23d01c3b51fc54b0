"""Translate molecules from SMILES to IUPAC names with nn.Transformer: fp16 autocast with a GradScaler, gradient clipping, label smoothing, inverse-square-root warm-up."""

import argparse
import math
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

PAD, BOS, EOS = 0, 1, 2


def made_up_pairs(n, source, target, source_vocab, target_vocab):
    src = torch.randint(3, source_vocab, (n, source))
    tgt = torch.randint(3, target_vocab, (n, target))
    for i in range(n):
        src[i, torch.randint(source // 3, source + 1, ()) :] = PAD
        end = torch.randint(target // 3, target, ())
        tgt[i, end] = EOS
        tgt[i, end + 1 :] = PAD
    tgt[:, 0] = BOS
    return TensorDataset(src, tgt)


class Positions(nn.Module):
    def __init__(self, width, longest):
        super().__init__()
        where = torch.arange(longest).unsqueeze(1)
        rate = torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
        table = torch.zeros(1, longest, width)
        table[0, :, 0::2] = torch.sin(where * rate)
        table[0, :, 1::2] = torch.cos(where * rate)
        self.register_buffer("table", table)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x):
        return self.dropout(x + self.table[:, : x.size(1)])


class Translator(nn.Module):
    def __init__(self, source_vocab, target_vocab, width, layers, longest):
        super().__init__()
        self.scale = math.sqrt(width)
        self.source = nn.Embedding(source_vocab, width, padding_idx=PAD)
        self.target = nn.Embedding(target_vocab, width, padding_idx=PAD)
        self.positions = Positions(width, longest)
        self.body = nn.Transformer(
            width, width // 64, layers, layers, 4 * width, 0.1, batch_first=True, norm_first=True
        )
        self.out = nn.Linear(width, target_vocab)

    def forward(self, src, tgt):
        causal = nn.Transformer.generate_square_subsequent_mask(tgt.size(1), device=tgt.device)
        x = self.body(
            self.positions(self.source(src) * self.scale),
            self.positions(self.target(tgt) * self.scale),
            tgt_mask=causal,
            src_key_padding_mask=torch.zeros_like(src, dtype=torch.float).masked_fill(
                src == PAD, float("-inf")
            ),
            memory_key_padding_mask=torch.zeros_like(src, dtype=torch.float).masked_fill(
                src == PAD, float("-inf")
            ),
            tgt_is_causal=True,
        )
        return self.out(x)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--device", default="cuda")
    ap.add_argument("--source", type=int, default=197)
    ap.add_argument("--target", type=int, default=333)
    ap.add_argument("--width", type=int, default=768)
    ap.add_argument("--layers", type=int, default=8)
    ap.add_argument("--batch", type=int, default=64)
    ap.add_argument("--pairs", type=int, default=1500)
    ap.add_argument("--clip", type=float, default=1.0)
    args = ap.parse_args()

    device = torch.device(args.device)
    amp = device.type == "cuda"
    train = DataLoader(
        made_up_pairs(args.pairs, args.source, args.target, 620, 1804), args.batch, shuffle=True
    )
    valid = DataLoader(
        made_up_pairs(args.pairs // 8, args.source, args.target, 620, 1804), args.batch
    )
    model = Translator(620, 1804, args.width, args.layers, max(args.source, args.target))
    model.to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1.0, betas=(0.9, 0.98), eps=1e-9)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer,
        lambda s: args.width**-0.5 * min((s + 1) ** -0.5, (s + 1) * 400**-1.5),
    )
    scaler = torch.amp.GradScaler(device.type, enabled=amp)
    criterion = nn.CrossEntropyLoss(ignore_index=PAD, label_smoothing=0.1)

    model.train()
    began = time.time()
    for step, (src, tgt) in enumerate(train):
        src, tgt = src.to(device), tgt.to(device)
        with torch.autocast(device.type, torch.float16, enabled=amp):
            logits = model(src, tgt[:, :-1])
            loss = criterion(logits.flatten(0, 1), tgt[:, 1:].flatten())
        optimizer.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norm = nn.utils.clip_grad_norm_(model.parameters(), args.clip)
        scaler.step(optimizer)
        scaler.update()
        schedule.step()
        if step % 5 == 0:
            print(
                f"{step:4d} loss {loss.item():.3f} norm {norm.item():.2f} {time.time() - began:.1f} s"
            )

    model.eval()
    losses = []
    with torch.no_grad(), torch.autocast(device.type, torch.float16, enabled=amp):
        for src, tgt in valid:
            src, tgt = src.to(device), tgt.to(device)
            logits = model(src, tgt[:, :-1])
            losses.append(criterion(logits.flatten(0, 1), tgt[:, 1:].flatten()).item())
    print("validation", sum(losses) / len(losses))


if __name__ == "__main__":
    main()
