"""Low-rank adapters written by hand on a causal model in bf16, 8 batches to a step, perplexity at the end."""

import math

import torch
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM


class LoRA(nn.Module):
    def __init__(self, base, rank=16, alpha=32):
        super().__init__()
        self.base, self.scale = base, alpha / rank
        self.down = nn.Parameter(
            torch.randn(rank, base.in_features, device=base.weight.device) / rank
        )
        self.up = nn.Parameter(torch.zeros(base.out_features, rank, device=base.weight.device))

    def forward(self, x):
        y = self.base(x)
        return y + (
            nn.functional.dropout(x, 0.05, self.training).to(self.down.dtype)
            @ self.down.t()
            @ self.up.t()
            * self.scale
        ).to(y.dtype)


torch.set_default_dtype(torch.bfloat16)
with torch.device("cuda"):
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=32000,
            hidden_size=1536,
            intermediate_size=4096,
            num_hidden_layers=12,
            num_attention_heads=12,
            num_key_value_heads=4,
        )
    )
torch.set_default_dtype(torch.float32)
model.requires_grad_(False)
for layer in model.model.layers:
    for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
        setattr(layer.self_attn, name, LoRA(getattr(layer.self_attn, name)))
model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
model.enable_input_require_grads()
model.config.use_cache = False
trained = [p for p in model.parameters() if p.requires_grad]
optimizer = torch.optim.AdamW(trained, lr=1e-4, weight_decay=0.0)
model.train()
for step in range(30):
    for micro in range(8):
        ids = torch.randint(0, 32000, (2, 1024), device="cuda")
        loss = model(input_ids=ids, labels=ids).loss / 8
        loss.backward()
    nn.utils.clip_grad_norm_(trained, 1.0)
    optimizer.step()
    optimizer.zero_grad()
    if step % 10 == 0:
        print(step, loss.item() * 8)
model.eval()
losses = []
with torch.inference_mode():
    for _ in range(4):
        ids = torch.randint(0, 32000, (8, 1024), device="cuda")
        losses.append(model(input_ids=ids, labels=ids).loss.float())
print(math.exp(torch.stack(losses).mean().clamp(max=20)))
