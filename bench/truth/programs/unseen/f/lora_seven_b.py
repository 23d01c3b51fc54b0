"""LoRA on a model of 7 billion parameters in bf16: a plain loop, adapters saved, merged, and a few answers."""

import argparse
import os
import tempfile

import torch
from peft import LoraConfig, get_peft_model
from torch.utils.data import DataLoader, Dataset
from transformers import LlamaConfig, LlamaForCausalLM, get_cosine_schedule_with_warmup


class Instructions(Dataset):
    """A question, whose tokens do not count, and an answer."""

    def __init__(self, count, vocab, longest):
        g = torch.Generator().manual_seed(0)
        self.rows = []
        for _ in range(count):
            total = int(torch.randint(longest // 3, longest + 1, (1,), generator=g))
            ids = torch.randint(3, vocab, (total,), generator=g)
            labels = ids.clone()
            labels[: total // 3] = -100
            self.rows.append((ids, labels))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


def collate(rows):
    ids = torch.nn.utils.rnn.pad_sequence([r[0] for r in rows], batch_first=True, padding_value=0)
    labels = torch.nn.utils.rnn.pad_sequence(
        [r[1] for r in rows], batch_first=True, padding_value=-100
    )
    return {"input_ids": ids, "attention_mask": (ids != 0).long(), "labels": labels}


def build(args):
    config = LlamaConfig(
        vocab_size=args.vocab,
        hidden_size=args.hidden,
        intermediate_size=args.intermediate,
        num_hidden_layers=args.layers,
        num_attention_heads=32,
        num_key_value_heads=32,
        max_position_embeddings=4096,
        use_cache=False,
        pad_token_id=0,
        eos_token_id=2,
    )
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.device("cuda"):
            return LlamaForCausalLM(config)
    finally:
        torch.set_default_dtype(before)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--vocab", type=int, default=32000)
    parser.add_argument("--hidden", type=int, default=4096)
    parser.add_argument("--intermediate", type=int, default=11008)
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--longest", type=int, default=512)
    parser.add_argument("--batch", type=int, default=3)
    parser.add_argument("--accumulate", type=int, default=2)
    parser.add_argument("--rows", type=int, default=48)
    parser.add_argument("--rank", type=int, default=16)
    args = parser.parse_args()
    torch.manual_seed(100)
    model = build(args)
    lora = LoraConfig(
        task_type="CAUSAL_LM",
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
    )
    model = get_peft_model(model, lora)
    model.print_trainable_parameters()
    loader = DataLoader(
        Instructions(args.rows, args.vocab, args.longest),
        args.batch,
        shuffle=True,
        collate_fn=collate,
    )
    trainable = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trainable, lr=2e-4, weight_decay=0.0)
    schedule = get_cosine_schedule_with_warmup(optimizer, 2, len(loader) // args.accumulate)
    model.train()
    for step, batch in enumerate(loader):
        batch = {k: v.to("cuda") for k, v in batch.items()}
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(**batch).loss / args.accumulate
        loss.backward()
        if (step + 1) % args.accumulate == 0:
            torch.nn.utils.clip_grad_norm_(trainable, 0.3)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        if step % 4 == 0:
            print(f"{step}: {loss.item() * args.accumulate:.3f}, {tuple(batch['input_ids'].shape)}")
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        size = sum(os.path.getsize(os.path.join(folder, f)) for f in os.listdir(folder))
        print(f"adapter: {size / 2**20:.0f} MiB")
    del optimizer, trainable, loss, batch
    torch.cuda.empty_cache()
    model = model.merge_and_unload().eval()
    model.config.use_cache = True
    with torch.inference_mode():
        prompt = torch.randint(3, args.vocab, (4, 64), device="cuda")
        answer = model.generate(prompt, max_new_tokens=40, do_sample=True, top_k=50, pad_token_id=0)
    print(answer.shape, f"{torch.cuda.max_memory_allocated() / 2**30:.1f} GiB")


if __name__ == "__main__":
    main()
