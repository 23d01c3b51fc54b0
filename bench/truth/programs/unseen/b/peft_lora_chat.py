"""LoRA with PEFT on a Gemma-like model in bf16: masked prompts, an own loop, adapters merged and saved at the end."""

import argparse
import random

import torch
from peft import LoraConfig, TaskType, get_peft_model
from torch.utils.data import DataLoader
from transformers import GemmaConfig, GemmaForCausalLM, get_cosine_schedule_with_warmup

QUESTIONS = [
    "Where does the river end?",
    "Who wrote this letter?",
    "How many boats are in the harbour?",
]
ANSWERS = ["It ends in the sea, ", "Nobody knows for sure, ", "There are seven, "]


def make_chat(rng, max_len):
    prompt = f"<user> {rng.choice(QUESTIONS)} <bot> "
    answer = rng.choice(ANSWERS) * rng.randint(2, 30)
    ids = list(prompt.encode()) + list(answer.encode())
    labels = [-100] * len(prompt.encode()) + list(answer.encode())
    return ids[:max_len], labels[:max_len]


def pad_to(max_len):
    def collate(rows):
        ids, mask, labels = [], [], []
        for tokens, target in rows:
            fill = max_len - len(tokens)
            ids.append(tokens + [0] * fill)
            mask.append([1] * len(tokens) + [0] * fill)
            labels.append(target + [-100] * fill)
        return {
            "input_ids": torch.tensor(ids),
            "attention_mask": torch.tensor(mask),
            "labels": torch.tensor(labels),
        }

    return collate


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--hidden", type=int, default=2048)
    parser.add_argument("--layers", type=int, default=18)
    parser.add_argument("--vocab", type=int, default=128000)
    parser.add_argument("--rank", type=int, default=32)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--max-len", type=int, default=512)
    parser.add_argument("--chats", type=int, default=200)
    parser.add_argument("--checkpointing", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(8)
    rng = random.Random(8)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    config = GemmaConfig(
        vocab_size=args.vocab,
        hidden_size=args.hidden,
        intermediate_size=args.hidden * 4,
        num_hidden_layers=args.layers,
        num_attention_heads=8,
        num_key_value_heads=1,
        head_dim=args.hidden // 8,
    )
    with torch.device(device):
        base = GemmaForCausalLM(config).to(torch.bfloat16)
    base.config.use_cache = False
    if args.checkpointing:
        base.gradient_checkpointing_enable()
        base.enable_input_require_grads()
    lora = LoraConfig(
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
    )
    model = get_peft_model(base, lora)
    model.print_trainable_parameters()
    chats = [make_chat(rng, args.max_len) for _ in range(args.chats)]
    loader = DataLoader(chats, args.batch, shuffle=True, collate_fn=pad_to(args.max_len))
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=2e-4)
    scheduler = get_cosine_schedule_with_warmup(optimizer, 3, len(loader))
    model.train()
    for step, batch in enumerate(loader):
        batch = {k: v.to(device) for k, v in batch.items()}
        loss = model(**batch).loss
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.3)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        if step % 5 == 0:
            print(f"step {step}: loss {loss.item():.4f} norm {norm.item():.3f}")
    model.save_pretrained("adapter")
    merged = model.merge_and_unload().eval()
    merged.config.use_cache = True
    prompt = torch.tensor([list(b"<user> Where does the river end? <bot> ")], device=device)
    with torch.no_grad():
        out = merged.generate(
            input_ids=prompt, max_new_tokens=24, do_sample=False, pad_token_id=0, eos_token_id=None
        )
    print(out[0, prompt.size(1) :].tolist())


if __name__ == "__main__":
    main()
