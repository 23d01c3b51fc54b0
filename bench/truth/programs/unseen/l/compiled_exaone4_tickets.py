"""Pretrain a small EXAONE-4 (hybrid sliding/full attention) on support tickets.

Plain PyTorch loop: torch.compile on the model, bf16 autocast, two micro-batches
per step, inverse-sqrt schedule, validation perplexity in the middle and at the end.
"""

import argparse
import logging
import math
import time

import torch
from torch.utils.data import DataLoader, TensorDataset
from transformers import Exaone4Config, Exaone4ForCausalLM

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
log = logging.getLogger("tickets")


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--hidden", type=int, default=1024)
    p.add_argument("--layers", type=int, default=12)
    p.add_argument("--heads", type=int, default=16)
    p.add_argument("--vocab", type=int, default=48_000)
    p.add_argument("--seq-len", type=int, default=1024)
    p.add_argument("--micro-batch", type=int, default=14)
    p.add_argument("--accum", type=int, default=2)
    p.add_argument("--steps", type=int, default=24)
    p.add_argument("--warmup", type=int, default=6)
    p.add_argument("--lr", type=float, default=4e-4)
    p.add_argument("--eval-every", type=int, default=12)
    p.add_argument("--seed", type=int, default=2025)
    return p.parse_args()


def make_corpus(n, length, vocab, seed):
    """Markov-ish text: every token is near to the last one."""
    g = torch.Generator().manual_seed(seed)
    jumps = torch.randint(-40, 41, (n, length), generator=g)
    start = torch.randint(3, vocab, (n, 1), generator=g)
    return TensorDataset((start + jumps.cumsum(1)).remainder(vocab - 3) + 3)


def param_groups(model, decay):
    with_decay = [p for p in model.parameters() if p.ndim >= 2]
    without = [p for p in model.parameters() if p.ndim < 2]
    return [{"params": with_decay, "weight_decay": decay}, {"params": without, "weight_decay": 0.0}]


@torch.no_grad()
def perplexity(model, loader, device):
    model.eval()
    total, n = 0.0, 0
    for (ids,) in loader:
        ids = ids.to(device, non_blocking=True)
        with torch.autocast(device.type, dtype=torch.bfloat16):
            total += model(input_ids=ids, labels=ids).loss.item() * len(ids)
        n += len(ids)
    model.train()
    return math.exp(min(20.0, total / n))


def main():
    args = parse()
    torch.manual_seed(args.seed)
    torch.set_float32_matmul_precision("high")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    config = Exaone4Config(
        vocab_size=args.vocab,
        hidden_size=args.hidden,
        intermediate_size=int(args.hidden * 3.5),
        num_hidden_layers=args.layers,
        num_attention_heads=args.heads,
        num_key_value_heads=max(1, args.heads // 4),
        sliding_window=args.seq_len // 2,
        sliding_window_pattern=4,
        max_position_embeddings=args.seq_len,
        tie_word_embeddings=True,
        use_cache=False,
    )
    model = Exaone4ForCausalLM(config).to(device)
    log.info("%.1fM parameters", sum(p.numel() for p in model.parameters()) / 1e6)

    train = DataLoader(
        make_corpus(args.micro_batch * args.accum * args.steps, args.seq_len, args.vocab, 1),
        batch_size=args.micro_batch,
        shuffle=True,
        pin_memory=device.type == "cuda",
        drop_last=True,
    )
    valid = DataLoader(
        make_corpus(args.micro_batch * 3, args.seq_len, args.vocab, 2), batch_size=args.micro_batch
    )

    optimizer = torch.optim.AdamW(param_groups(model, 0.1), lr=args.lr, betas=(0.9, 0.95))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda s: min((s + 1) / args.warmup, math.sqrt(args.warmup / (s + 1)))
    )
    compiled = torch.compile(model)
    batches = iter(train)
    tic = time.time()
    for step in range(1, args.steps + 1):
        running = 0.0
        for _ in range(args.accum):
            (ids,) = next(batches)
            ids = ids.to(device, non_blocking=True)
            with torch.autocast(device.type, dtype=torch.bfloat16):
                loss = compiled(input_ids=ids, labels=ids).loss / args.accum
            loss.backward()
            running += loss.detach()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad(set_to_none=True)
        if step % 4 == 0:
            log.info(
                "step %d loss %.3f |g| %.2f lr %.2e",
                step,
                running.item(),
                norm.item(),
                schedule.get_last_lr()[0],
            )
        if step % args.eval_every == 0:
            log.info(
                "step %d valid ppl %.1f (%.1fs)",
                step,
                perplexity(model, valid, device),
                time.time() - tic,
            )


if __name__ == "__main__":
    main()
