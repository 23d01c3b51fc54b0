"""Byte-level GPT trained from a YAML file, in an endless loop that counts its own iterations and watches the clock."""

import argparse
import math
import os
import time

import numpy as np
import torch
import yaml
from torch import nn
from torch.nn import functional as F

DEFAULTS = """
n_layer: 10
n_head: 12
n_embd: 768
block_size: 512
batch_size: 24
grad_accum: 2
dropout: 0.0
max_iters: 40
eval_interval: 20
eval_iters: 4
warmup_iters: 5
learning_rate: 6.0e-4
min_lr: 6.0e-5
grad_clip: 1.0
max_minutes: 5
out_dir: out-bytes
"""


class Block(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        n = cfg["n_embd"]
        self.heads, self.dropout = cfg["n_head"], cfg["dropout"]
        self.ln1, self.ln2 = nn.LayerNorm(n, bias=False), nn.LayerNorm(n, bias=False)
        self.qkv, self.proj = nn.Linear(n, 3 * n, bias=False), nn.Linear(n, n, bias=False)
        self.mlp = nn.Sequential(
            nn.Linear(n, 4 * n, bias=False), nn.GELU(), nn.Linear(4 * n, n, bias=False)
        )

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (
            self.qkv(self.ln1(x)).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        )
        y = F.scaled_dot_product_attention(
            q, k, v, is_causal=True, dropout_p=self.dropout if self.training else 0
        )
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, c))
        return x + self.mlp(self.ln2(x))


class ByteGPT(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.block_size = cfg["block_size"]
        self.wte = nn.Embedding(256, cfg["n_embd"])
        self.wpe = nn.Embedding(cfg["block_size"], cfg["n_embd"])
        self.blocks = nn.ModuleList(Block(cfg) for _ in range(cfg["n_layer"]))
        self.ln_f = nn.LayerNorm(cfg["n_embd"], bias=False)
        self.lm_head = nn.Linear(cfg["n_embd"], 256, bias=False)
        self.apply(
            lambda m: nn.init.normal_(m.weight, std=0.02)
            if isinstance(m, nn.Linear | nn.Embedding)
            else None
        )

    def forward(self, idx, targets=None):
        pos = torch.arange(idx.size(1), device=idx.device)
        x = self.wte(idx) + self.wpe(pos)
        for block in self.blocks:
            x = block(x)
        logits = self.lm_head(self.ln_f(x))
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.view(-1, 256), targets.view(-1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", help="a YAML file whose entries replace the defaults")
    parser.add_argument("--set", nargs="*", default=[], help="KEY=VALUE")
    args = parser.parse_args()
    cfg = yaml.safe_load(DEFAULTS)
    if args.config:
        with open(args.config, encoding="utf-8") as f:
            cfg.update(yaml.safe_load(f))
    cfg.update({k: yaml.safe_load(v) for k, v in (pair.split("=") for pair in args.set)})
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(1337)
    os.makedirs(cfg["out_dir"], exist_ok=True)
    # the "corpus" lies in a file that is mapped, not read
    corpus = os.path.join(cfg["out_dir"], "train.bin")
    np.random.default_rng(0).integers(0, 256, 2_000_000, dtype=np.uint8).tofile(corpus)

    def get_batch():
        data = np.memmap(corpus, dtype=np.uint8, mode="r")
        ix = torch.randint(len(data) - cfg["block_size"] - 1, (cfg["batch_size"],))
        x = torch.stack(
            [torch.from_numpy(data[i : i + cfg["block_size"]].astype(np.int64)) for i in ix]
        )
        y = torch.stack(
            [torch.from_numpy(data[i + 1 : i + 1 + cfg["block_size"]].astype(np.int64)) for i in ix]
        )
        if device == "cuda":
            return x.pin_memory().to(device, non_blocking=True), y.pin_memory().to(
                device, non_blocking=True
            )
        return x, y

    model = ByteGPT(cfg).to(device)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=cfg["learning_rate"], betas=(0.9, 0.95), fused=device == "cuda"
    )
    ctx = torch.autocast(device, dtype=torch.bfloat16)

    def lr_at(it):
        if it < cfg["warmup_iters"]:
            return cfg["learning_rate"] * (it + 1) / cfg["warmup_iters"]
        ratio = min(
            1.0, (it - cfg["warmup_iters"]) / max(1, cfg["max_iters"] - cfg["warmup_iters"])
        )
        return cfg["min_lr"] + 0.5 * (1 + math.cos(math.pi * ratio)) * (
            cfg["learning_rate"] - cfg["min_lr"]
        )

    @torch.no_grad()
    def estimate_loss():
        model.eval()
        losses = torch.zeros(cfg["eval_iters"])
        for k in range(cfg["eval_iters"]):
            with ctx:
                losses[k] = model(*get_batch())[1].item()
        model.train()
        return losses.mean()

    iter_num, best, began = 0, 1e9, time.time()
    x, y = get_batch()
    while True:
        for group in optimizer.param_groups:
            group["lr"] = lr_at(iter_num)
        if iter_num % cfg["eval_interval"] == 0:
            loss = estimate_loss()
            print(f"iter {iter_num}: val loss {loss:.4f}")
            if loss < best and iter_num > 0:
                best = loss
                torch.save(
                    {"model": model.state_dict(), "iter": iter_num, "cfg": cfg},
                    f"{cfg['out_dir']}/ckpt.pt",
                )
        for _ in range(cfg["grad_accum"]):
            with ctx:
                _, loss = model(x, y)
                loss = loss / cfg["grad_accum"]
            x, y = get_batch()
            loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), cfg["grad_clip"])
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        iter_num += 1
        if iter_num > cfg["max_iters"] or time.time() - began > cfg["max_minutes"] * 60:
            break
    print(f"done after {iter_num} iterations")


if __name__ == "__main__":
    main()
