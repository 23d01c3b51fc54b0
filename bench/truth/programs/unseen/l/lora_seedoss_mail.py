"""LoRA on a 1.3B Seed-OSS decoder (bf16 weights, gradient checkpointing) to answer mail; plain loop, uneven lengths, test loss with a larger batch, adapter saved."""

import argparse
import tempfile
import time

import torch
from peft import LoraConfig, TaskType, get_peft_model
from torch.utils.data import DataLoader, Dataset
from transformers import SeedOssConfig, SeedOssForCausalLM, get_cosine_schedule_with_warmup


class Mail(Dataset):
    """Prompt (masked) and reply."""

    def __init__(self, n, longest, vocab, seed):
        g = torch.Generator().manual_seed(seed)
        self.rows = []
        for _ in range(n):
            total = int(torch.randint(longest // 2, longest + 1, (1,), generator=g))
            prompt = int(torch.randint(longest // 8, longest // 4, (1,), generator=g))
            self.rows.append((torch.randint(3, vocab, (total,), generator=g), prompt))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


def collate(rows, pad=1, multiple=64):
    longest = max(len(ids) for ids, _ in rows)
    longest = -(-longest // multiple) * multiple
    ids = torch.full((len(rows), longest), pad)
    labels = torch.full((len(rows), longest), -100)
    mask = torch.zeros(len(rows), longest, dtype=torch.long)
    for i, (row, prompt) in enumerate(rows):
        ids[i, : len(row)] = row
        labels[i, prompt : len(row)] = row[prompt:]
        mask[i, : len(row)] = 1
    return {"input_ids": ids, "labels": labels, "attention_mask": mask}


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--hidden", type=int, default=2048)
    ap.add_argument("--layers", type=int, default=20)
    ap.add_argument("--head-dim", type=int, default=128)
    ap.add_argument("--vocab", type=int, default=80_000)
    ap.add_argument("--longest", type=int, default=1536)
    ap.add_argument("--batch", type=int, default=4)
    ap.add_argument("--steps", type=int, default=26)
    ap.add_argument("--rank", type=int, default=32)
    args = ap.parse_args()
    torch.manual_seed(4)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    heads = args.hidden // args.head_dim
    config = SeedOssConfig(
        vocab_size=args.vocab,
        hidden_size=args.hidden,
        intermediate_size=3 * args.hidden,
        num_hidden_layers=args.layers,
        num_attention_heads=heads,
        num_key_value_heads=max(1, heads // 4),
        head_dim=args.head_dim,
        max_position_embeddings=args.longest + 64,
        attention_dropout=0.0,
        residual_dropout=0.0,
    )
    torch.set_default_dtype(torch.bfloat16)
    with device:
        base = SeedOssForCausalLM(config)
    torch.set_default_dtype(torch.float32)
    base.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    base.enable_input_require_grads()
    base.config.use_cache = False
    model = get_peft_model(
        base,
        LoraConfig(
            task_type=TaskType.CAUSAL_LM,
            r=args.rank,
            lora_alpha=2 * args.rank,
            lora_dropout=0.05,
            target_modules=[
                "q_proj",
                "k_proj",
                "v_proj",
                "o_proj",
                "gate_proj",
                "up_proj",
                "down_proj",
            ],
        ),
    )
    model.print_trainable_parameters()

    loader = DataLoader(
        Mail(args.batch * args.steps, args.longest, args.vocab, 1),
        args.batch,
        shuffle=True,
        collate_fn=collate,
    )
    test = DataLoader(
        Mail(args.batch * 4, args.longest, args.vocab, 2), args.batch * 2, collate_fn=collate
    )
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=2e-4)
    schedule = get_cosine_schedule_with_warmup(optimizer, 3, args.steps)
    model.train()
    start = time.time()
    for step, batch in enumerate(loader, 1):
        batch = {k: v.to(device) for k, v in batch.items()}
        with torch.autocast(device.type, torch.bfloat16):
            loss = model(**batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.3)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        if step % 5 == 0:
            print(f"step {step}: loss {loss.item():.3f}, {step / (time.time() - start):.2f} it/s")

    model.eval()
    with torch.no_grad():
        losses = [model(**{k: v.to(device) for k, v in b.items()}).loss.item() for b in test]
    print("test loss", sum(losses) / len(losses))
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)


if __name__ == "__main__":
    main()
