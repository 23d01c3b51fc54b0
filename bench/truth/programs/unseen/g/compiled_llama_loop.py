"""Pre-train a 300M Llama: torch.compile on the HF model, fused AdamW, bf16 autocast, tokens/s and an eval loop."""

import math
import os
import time

import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM

# ---------------------------------------------------------------- settings
out_dir = "llama300m"
eval_interval = 15
eval_iters = 4
log_interval = 5
max_iters = 30
gradient_accumulation_steps = 2
batch_size = 16
block_size = 1024
n_layer, n_head, n_embd = 16, 16, 1024
vocab_size = 32000
learning_rate = 6e-4
min_lr = 6e-5
warmup_iters = 5
grad_clip = 1.0
device = "cuda"
compile_backend = os.environ.get("COMPILE_BACKEND", "inductor")
# ----------------------------------------------------------------

torch.manual_seed(1337)
torch.backends.cuda.matmul.allow_tf32 = True
torch.backends.cudnn.allow_tf32 = True
os.makedirs(out_dir, exist_ok=True)

rng = np.random.default_rng(0)
for split, n in (("train", 3_000_000), ("val", 300_000)):
    path = os.path.join(out_dir, f"{split}.bin")
    if not os.path.exists(path):
        (rng.zipf(1.2, n) % vocab_size).astype(np.uint16).tofile(path)


def get_batch(split):
    data = np.memmap(os.path.join(out_dir, f"{split}.bin"), dtype=np.uint16, mode="r")
    ix = torch.randint(len(data) - block_size, (batch_size,))
    x = torch.stack([torch.from_numpy(data[i : i + block_size].astype(np.int64)) for i in ix])
    if device == "cuda":
        return x.pin_memory().to(device, non_blocking=True)
    return x.to(device)


config = LlamaConfig(
    vocab_size=vocab_size,
    hidden_size=n_embd,
    intermediate_size=n_embd * 11 // 4,
    num_hidden_layers=n_layer,
    num_attention_heads=n_head,
    num_key_value_heads=n_head,
    max_position_embeddings=block_size,
    use_cache=False,
)
raw_model = LlamaForCausalLM(config).to(device)
print(f"number of parameters: {raw_model.num_parameters() / 1e6:.2f}M")
decay = [p for p in raw_model.parameters() if p.dim() >= 2]
rest = [p for p in raw_model.parameters() if p.dim() < 2]
optimizer = torch.optim.AdamW(
    [{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}],
    lr=learning_rate,
    betas=(0.9, 0.95),
    fused=device == "cuda",
)
print("compiling the model... (takes a ~minute)")
model = torch.compile(raw_model, backend=compile_backend)
ctx = torch.autocast(device_type=device, dtype=torch.bfloat16)


@torch.no_grad()
def estimate_loss():
    out = {}
    model.eval()
    for split in ("train", "val"):
        losses = torch.zeros(eval_iters)
        for k in range(eval_iters):
            x = get_batch(split)
            with ctx:
                loss = model(input_ids=x, labels=x).loss
            losses[k] = loss.item()
        out[split] = losses.mean().item()
    model.train()
    return out


def get_lr(it):
    if it < warmup_iters:
        return learning_rate * (it + 1) / (warmup_iters + 1)
    ratio = (it - warmup_iters) / max(1, max_iters - warmup_iters)
    return min_lr + 0.5 * (1 + math.cos(math.pi * ratio)) * (learning_rate - min_lr)


best_val = 1e9
x = get_batch("train")
t0 = time.time()
for it in range(max_iters + 1):
    for group in optimizer.param_groups:
        group["lr"] = get_lr(it)
    if it > 0 and it % eval_interval == 0:
        losses = estimate_loss()
        print(f"step {it}: train loss {losses['train']:.4f}, val loss {losses['val']:.4f}")
        if losses["val"] < best_val:
            best_val = losses["val"]
            checkpoint = {
                "model": raw_model.state_dict(),
                "optimizer": optimizer.state_dict(),
                "iter": it,
                "best_val": best_val,
            }
            torch.save(checkpoint, os.path.join(out_dir, "ckpt.pt"))
    if it == max_iters:
        break
    for micro in range(gradient_accumulation_steps):
        with ctx:
            loss = model(input_ids=x, labels=x).loss / gradient_accumulation_steps
        x = get_batch("train")  # prefetch while the GPU works
        loss.backward()
    torch.nn.utils.clip_grad_norm_(raw_model.parameters(), grad_clip)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    t1 = time.time()
    dt, t0 = t1 - t0, t1
    if it % log_interval == 0:
        lossf = loss.item() * gradient_accumulation_steps
        print(
            f"iter {it}: loss {lossf:.4f}, time {dt * 1000:.1f}ms, {gradient_accumulation_steps * x.numel() / dt:.0f} tok/s"
        )
