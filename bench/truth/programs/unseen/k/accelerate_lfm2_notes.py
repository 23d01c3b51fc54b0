"""Train an LFM2-style hybrid (short convolutions and a few attention layers) on clinical notes with accelerate: bf16, accumulation, perplexity."""

import math
import sys

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, IterableDataset
from transformers import Lfm2Config, Lfm2ForCausalLM, get_scheduler


class Notes(IterableDataset):
    """Notes glued together and cut into blocks."""

    def __init__(self, vocab, block, blocks, seed):
        self.vocab, self.block, self.blocks, self.seed = vocab, block, blocks, seed

    def __iter__(self):
        g = torch.Generator().manual_seed(self.seed)
        buffer, made = [], 0
        while made < self.blocks:
            n = int(torch.randint(50, 900, (1,), generator=g))
            buffer += torch.randint(3, self.vocab, (n,), generator=g).tolist() + [2]
            while len(buffer) >= self.block and made < self.blocks:
                chunk = torch.tensor(buffer[: self.block])
                buffer = buffer[self.block :]
                made += 1
                yield {"input_ids": chunk, "labels": chunk.clone()}


def main():
    vocab, block, batch, accumulate, updates = 32768, 1024, 10, 3, 10
    accelerator = Accelerator(mixed_precision="bf16", gradient_accumulation_steps=accumulate)
    set_seed(7)
    config = Lfm2Config(
        vocab_size=vocab,
        hidden_size=1024,
        intermediate_size=4096,
        num_hidden_layers=14,
        num_attention_heads=16,
        num_key_value_heads=4,
        full_attn_idxs=[2, 5, 8, 10, 12],
        max_position_embeddings=block,
        use_cache=False,
    )
    with accelerator.device:
        model = Lfm2ForCausalLM(config)
    accelerator.print(f"{model.num_parameters() / 1e6:.0f}M parameters")
    no_decay = [p for n, p in model.named_parameters() if p.ndim < 2]
    decay = [p for n, p in model.named_parameters() if p.ndim >= 2]
    optimizer = torch.optim.AdamW(
        [
            {"params": decay, "weight_decay": 0.1},
            {"params": no_decay, "weight_decay": 0.0},
        ],
        lr=4e-4,
        betas=(0.9, 0.95),
    )
    loader = DataLoader(Notes(vocab, block, batch * accumulate * updates, 1), batch_size=batch)
    test = DataLoader(Notes(vocab, block, 2 * batch, 2), batch_size=batch)
    schedule = get_scheduler("cosine", optimizer, num_warmup_steps=2, num_training_steps=updates)
    model, optimizer, loader, test, schedule = accelerator.prepare(
        model, optimizer, loader, test, schedule
    )

    model.train()
    done = 0
    for rows in loader:
        with accelerator.accumulate(model):
            loss = model(**rows).loss
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
                done += 1
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        if accelerator.sync_gradients and done % 3 == 0:
            print(f"update {done}: {loss.item():.4f}", file=sys.stderr)

    model.eval()
    losses = []
    with torch.no_grad():
        for rows in test:
            losses.append(accelerator.gather(model(**rows).loss.repeat(1)))
    accelerator.print("perplexity", math.exp(min(20.0, torch.cat(losses).mean().item())))


if __name__ == "__main__":
    main()
