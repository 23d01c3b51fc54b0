"""IA3 on a frozen Ministral (sliding-window layers): learned rescaling vectors only, fp32 vectors over bf16 weights, then a short generation."""

import random

import torch
from peft import IA3Config, TaskType, get_peft_model
from transformers import MinistralConfig, MinistralForCausalLM

VOCAB = 32000
WIDTH = 2048
LAYERS = 18
WINDOW = 256
LONGEST = 768
MICRO = 4
ACCUMULATE = 4
UPDATES = 10


def question_answer(rng):
    q, a = rng.randint(40, LONGEST // 2), rng.randint(20, LONGEST // 2)
    return [rng.randrange(5, VOCAB) for _ in range(q)], [
        rng.randrange(5, VOCAB) for _ in range(a)
    ] + [2]


def micro_batch(rng, device):
    rows = [question_answer(rng) for _ in range(MICRO)]
    longest = max(len(q) + len(a) for q, a in rows)
    ids = torch.zeros(MICRO, longest, dtype=torch.long)
    labels = torch.full((MICRO, longest), -100)
    mask = torch.zeros_like(ids)
    for i, (q, a) in enumerate(rows):
        n = len(q) + len(a)
        ids[i, :n] = torch.tensor(q + a)
        labels[i, len(q) : n] = torch.tensor(a)
        mask[i, :n] = 1
    return ids.to(device), mask.to(device), labels.to(device)


def main():
    rng = random.Random(9)
    torch.manual_seed(9)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    config = MinistralConfig(
        vocab_size=VOCAB,
        hidden_size=WIDTH,
        intermediate_size=3 * WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=16,
        num_key_value_heads=4,
        head_dim=WIDTH // 16,
        max_position_embeddings=4096,
        sliding_window=WINDOW,
        layer_types=[
            "full_attention" if i % 3 == 2 else "sliding_attention" for i in range(LAYERS)
        ],
        pad_token_id=0,
    )
    with device:
        base = MinistralForCausalLM(config).to(torch.bfloat16)
    model = get_peft_model(
        base,
        IA3Config(
            task_type=TaskType.CAUSAL_LM,
            target_modules=["k_proj", "v_proj", "down_proj"],
            feedforward_modules=["down_proj"],
        ),
    )
    model.print_trainable_parameters()
    trainable = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.Adam(trainable, lr=8e-3)
    model.train()
    for update in range(UPDATES):
        total = 0.0
        for _ in range(ACCUMULATE):
            ids, mask, labels = micro_batch(rng, device)
            with torch.autocast(device.type, dtype=torch.bfloat16):
                loss = model(input_ids=ids, attention_mask=mask, labels=labels).loss / ACCUMULATE
            loss.backward()
            total += loss.item()
        torch.nn.utils.clip_grad_norm_(trainable, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        print(f"update {update} loss {total:.4f}")

    model.eval()
    prompt = torch.randint(5, VOCAB, (8, 256), device=device)
    with torch.no_grad(), torch.autocast(device.type, dtype=torch.bfloat16):
        out = model.generate(
            input_ids=prompt,
            attention_mask=torch.ones_like(prompt),
            max_new_tokens=32,
            do_sample=False,
        )
    print(out.shape)


if __name__ == "__main__":
    main()
