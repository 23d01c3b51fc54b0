"""A plain training loop around a torch.compile'd Arcee language model (bf16 autocast, fused AdamW)."""

import time

import torch
from transformers import ArceeConfig, ArceeForCausalLM

VOCAB = 32000
WIDTH = 1024
INNER = 4096
LAYERS = 12
CONTEXT = 512
BATCH = 16
STEPS = 30
LR = 6e-4


def lr_at(step):
    return LR * min(1.0, (step + 1) / 5) * (1 - 0.9 * step / STEPS)


class Batches:
    """An endless stream of random windows over one long log."""

    def __init__(self, device, tokens=500_000):
        self.log = torch.randint(0, VOCAB, (tokens,), generator=torch.Generator().manual_seed(0))
        self.random = torch.Generator().manual_seed(1)
        self.device = device

    def next(self):
        starts = torch.randint(0, len(self.log) - CONTEXT, (BATCH,), generator=self.random)
        window = torch.stack([self.log[s : s + CONTEXT] for s in starts])
        return window.to(self.device, non_blocking=True)


def main():
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = ArceeForCausalLM(
        ArceeConfig(
            vocab_size=VOCAB,
            hidden_size=WIDTH,
            intermediate_size=INNER,
            num_hidden_layers=LAYERS,
            num_attention_heads=16,
            num_key_value_heads=8,
            max_position_embeddings=CONTEXT,
            use_cache=False,
            bos_token_id=1,
            eos_token_id=2,
        )
    ).to(device)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=LR, betas=(0.9, 0.95), weight_decay=0.1, fused=device == "cuda"
    )
    compiled = torch.compile(model)
    data = Batches(device)

    clock = time.time()
    for step in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = lr_at(step)
        ids = data.next()
        with torch.autocast(device_type=device, dtype=torch.bfloat16):
            loss = compiled(input_ids=ids, labels=ids).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if step % 10 == 0 or step == STEPS - 1:
            print(f"step {step} loss {loss.item():.4f} ({time.time() - clock:.1f} s)")


if __name__ == "__main__":
    main()
