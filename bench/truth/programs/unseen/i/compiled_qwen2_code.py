"""Pretrain a small Qwen2 on code tokens with torch.compile, bf16 autocast; evaluation with the plain module."""

import math
import time

import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

DEVICE = "cuda"
VOCAB = 49152
SEQ = 1024
BATCH = 8
EVAL_BATCH = 6
STEPS = 20
ACCUMULATE = 2
HIDDEN, INTER, LAYERS, HEADS, KV = 1280, 3456, 4, 20, 4


def lr_at(step, peak=6e-4, warm=4):
    if step < warm:
        return peak * (step + 1) / warm
    return peak * (0.1 + 0.45 * (1 + math.cos(math.pi * (step - warm) / (STEPS - warm))))


def batch_of(tokens, n):
    starts = torch.randint(0, len(tokens) - SEQ, (n,))
    return torch.stack([tokens[s : s + SEQ] for s in starts]).to(DEVICE, non_blocking=True)


@torch.no_grad()
def evaluate(model, tokens, batches=4):
    model.eval()
    total = 0.0
    for _ in range(batches):
        ids = batch_of(tokens, EVAL_BATCH)
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            total += model(input_ids=ids, labels=ids, use_cache=False).loss.item()
    model.train()
    return total / batches


def main():
    torch.manual_seed(1337)
    torch.set_float32_matmul_precision("high")
    tokens = torch.randint(0, VOCAB, (400_000,))
    train, held = tokens[:360_000], tokens[360_000:]
    config = Qwen2Config(
        vocab_size=VOCAB,
        hidden_size=HIDDEN,
        intermediate_size=INTER,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=KV,
        max_position_embeddings=SEQ,
        tie_word_embeddings=True,
        use_cache=False,
    )
    model = Qwen2ForCausalLM(config).to(DEVICE)
    compiled = torch.compile(model)
    decay = [p for p in model.parameters() if p.dim() >= 2]
    rest = [p for p in model.parameters() if p.dim() < 2]
    optimizer = torch.optim.AdamW(
        [{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}],
        lr=6e-4,
        betas=(0.9, 0.95),
        fused=True,
    )
    started = time.time()
    for step in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = lr_at(step)
        for _ in range(ACCUMULATE):
            ids = batch_of(train, BATCH)
            with torch.autocast(DEVICE, dtype=torch.bfloat16):
                loss = compiled(input_ids=ids, labels=ids, use_cache=False).loss
            (loss / ACCUMULATE).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if step % 5 == 0:
            print(f"step {step} loss {loss.item():.3f} {time.time() - started:.1f}s")
        if step == STEPS // 2:
            print("held-out", evaluate(model, held))
    print("held-out", evaluate(model, held), "peak", torch.cuda.max_memory_allocated() >> 20, "MiB")
    torch.save(model.state_dict(), "qwen2_code.pt")


if __name__ == "__main__":
    main()
