"""LoRA on all linear layers of a Gemma (bf16 base) for contract clauses; compares with the base, merges, samples."""

import math

import torch
from peft import LoraConfig, TaskType, get_peft_model
from torch.utils.data import DataLoader, TensorDataset
from transformers import GemmaConfig, GemmaForCausalLM, get_cosine_schedule_with_warmup, set_seed

DEVICE = "cuda"
SEQ = 512
VOCAB = 256000
BATCH, EVAL_BATCH, ACCUMULATE = 3, 4, 4
CLAUSES, EVAL_CLAUSES = 60, 16
HIDDEN, INTER, LAYERS, HEADS, KV, HEAD_DIM = 1536, 6144, 12, 8, 1, 192


def loader(n, batch, shuffle):
    return DataLoader(
        TensorDataset(torch.randint(5, VOCAB, (n, SEQ))), batch_size=batch, shuffle=shuffle
    )


@torch.no_grad()
def perplexity(model, data):
    model.eval()
    losses = []
    for (ids,) in data:
        ids = ids.to(DEVICE)
        losses.append(model(input_ids=ids, labels=ids, use_cache=False).loss.item())
    model.train()
    return math.exp(min(30.0, sum(losses) / len(losses)))


def main():
    set_seed(11)
    config = GemmaConfig(
        vocab_size=VOCAB,
        hidden_size=HIDDEN,
        intermediate_size=INTER,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=KV,
        head_dim=HEAD_DIM,
        max_position_embeddings=4096,
    )
    with torch.device(DEVICE):
        base = GemmaForCausalLM(config).to(torch.bfloat16)
    base.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    base.enable_input_require_grads()
    model = get_peft_model(
        base,
        LoraConfig(
            task_type=TaskType.CAUSAL_LM,
            r=32,
            lora_alpha=32,
            use_rslora=True,
            lora_dropout=0.05,
            target_modules="all-linear",
        ),
    )
    model.print_trainable_parameters()

    train, test = loader(CLAUSES, BATCH, True), loader(EVAL_CLAUSES, EVAL_BATCH, False)
    optimizer = torch.optim.AdamW(
        (p for p in model.parameters() if p.requires_grad), lr=2e-4, weight_decay=0.0
    )
    schedule = get_cosine_schedule_with_warmup(optimizer, 1, math.ceil(len(train) / ACCUMULATE))

    model.train()
    for i, (ids,) in enumerate(train, 1):
        ids = ids.to(DEVICE, non_blocking=True)
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            loss = model(input_ids=ids, labels=ids, use_cache=False).loss / ACCUMULATE
        loss.backward()
        if i % ACCUMULATE == 0 or i == len(train):
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.3)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            print(f"batch {i}: loss {loss.item() * ACCUMULATE:.3f} |g| {norm.item():.3f}")

    tuned = perplexity(model, test)
    with model.disable_adapter():
        before = perplexity(model, test)
    print(f"perplexity {before:.0f} -> {tuned:.0f}")
    model.save_pretrained("gemma_contracts_adapter")

    merged = model.merge_and_unload().eval()
    merged.gradient_checkpointing_disable()
    prompt = torch.randint(5, VOCAB, (8, 64), device=DEVICE)
    out = merged.generate(
        prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=32, do_sample=True, top_k=50
    )
    print("clause", out[0, 64:].tolist())


if __name__ == "__main__":
    main()
