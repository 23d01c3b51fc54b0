"""A small Mixtral (8 experts, 2 per token) trained from scratch with accelerate; router load is printed."""

import math
import time
from dataclasses import dataclass

import torch
from accelerate import Accelerator
from torch.optim.lr_scheduler import LambdaLR
from transformers import MixtralConfig, MixtralForCausalLM


@dataclass
class Cfg:
    vocab: int = 32000
    hidden: int = 768
    ffn: int = 2048
    layers: int = 8
    experts: int = 8
    seq: int = 1024
    batch: int = 8
    accum: int = 2
    steps: int = 16
    eval_every: int = 8
    lr: float = 3e-4


cfg = Cfg()


def stream(seed, device):
    """Markov-ish synthetic text, endless."""
    g = torch.Generator().manual_seed(seed)
    shift = torch.randint(1, cfg.vocab, (64,), generator=g)
    while True:
        x = torch.randint(0, cfg.vocab, (cfg.batch, 1), generator=g)
        cols = [x]
        for _ in range(63):
            cols.append((cols[-1] + shift[cols[-1] % 64]) % cfg.vocab)
        block = torch.cat(cols, 1)
        yield block.repeat(1, cfg.seq // 64).to(device)


def expert_load(router_logits, k=2):
    counts = torch.zeros(cfg.experts, device=router_logits[0].device)
    for logits in router_logits:
        chosen = logits.topk(k, dim=-1).indices.flatten()
        counts += torch.bincount(chosen, minlength=cfg.experts).float()
    return (counts / counts.sum()).tolist()


@torch.no_grad()
def evaluate(accelerator, model, batches, n=4):
    model.eval()
    losses = []
    for _ in range(n):
        x = next(batches)
        out = model(input_ids=x, labels=x)
        losses.append(accelerator.gather(out.loss.detach().reshape(1)))
    model.train()
    return torch.cat(losses).mean().item()


def main():
    accelerator = Accelerator(mixed_precision="bf16", gradient_accumulation_steps=cfg.accum)
    torch.manual_seed(1)
    model = MixtralForCausalLM(
        MixtralConfig(
            vocab_size=cfg.vocab,
            hidden_size=cfg.hidden,
            intermediate_size=cfg.ffn,
            num_hidden_layers=cfg.layers,
            num_attention_heads=12,
            num_key_value_heads=4,
            num_local_experts=cfg.experts,
            num_experts_per_tok=2,
            output_router_logits=True,
            router_aux_loss_coef=0.02,
            max_position_embeddings=2048,
            use_cache=False,
        )
    )
    accelerator.print(f"{model.num_parameters() / 1e6:.0f}M parameters in all")
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=cfg.lr, betas=(0.9, 0.95), weight_decay=0.1
    )
    warm = 4

    def schedule(s):
        if s < warm:
            return (s + 1) / warm
        return 0.1 + 0.45 * (1 + math.cos(math.pi * (s - warm) / max(1, cfg.steps - warm)))

    scheduler = LambdaLR(optimizer, schedule)
    model, optimizer, scheduler = accelerator.prepare(model, optimizer, scheduler)
    train = stream(0, accelerator.device)
    valid = stream(0, accelerator.device)

    model.train()
    step = micro = 0
    t0 = time.time()
    while step < cfg.steps:
        x = next(train)
        with accelerator.accumulate(model):
            out = model(input_ids=x, labels=x)
            if not torch.isfinite(out.loss):
                raise RuntimeError(f"loss is {out.loss.item()} at step {step}")
            accelerator.backward(out.loss)
            if accelerator.sync_gradients:
                norm = accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad(set_to_none=True)
        micro += 1
        if accelerator.sync_gradients:
            step += 1
            if step % 4 == 0:
                load = expert_load([r.detach() for r in out.router_logits])
                accelerator.print(
                    f"step {step} loss {out.loss.item():.3f} aux {out.aux_loss.item():.3f} norm {float(norm):.2f} "
                    f"load {min(load):.3f}..{max(load):.3f} {micro * x.numel() / (time.time() - t0):.0f} tok/s"
                )
            if step % cfg.eval_every == 0:
                accelerator.print("  eval", round(evaluate(accelerator, model, valid), 4))
    accelerator.save_model(model, "mixtral_small")


if __name__ == "__main__":
    main()
