"""Greedy continuation with a Gemma-2 sized model (sliding and full layers), then score what was written."""

import json
import math
import time

import torch
import torch.nn.functional as F
from transformers import AutoModelForCausalLM, Gemma2Config

HIDDEN = 2304
LAYERS = 26
INTERMEDIATE = 9216
VOCAB = 256000
HEAD_DIM = 256
WINDOW = 512
PROMPTS = 16
BATCH = 8
PROMPT_LEN = 1024
NEW_TOKENS = 64
SCORE_BATCH = 2
DEVICE = "cuda"


def load():
    config = Gemma2Config(
        vocab_size=VOCAB,
        hidden_size=HIDDEN,
        intermediate_size=INTERMEDIATE,
        num_hidden_layers=LAYERS,
        num_attention_heads=8,
        num_key_value_heads=4,
        head_dim=HEAD_DIM,
        sliding_window=WINDOW,
        query_pre_attn_scalar=HEAD_DIM,
        max_position_embeddings=8192,
    )
    with torch.device(DEVICE):
        model = AutoModelForCausalLM.from_config(
            config, dtype=torch.bfloat16, attn_implementation="sdpa"
        )
    return model.eval()


@torch.no_grad()
def continue_prompts(model, prompts):
    written = []
    for start in range(0, len(prompts), BATCH):
        batch = prompts[start : start + BATCH].to(DEVICE)
        began = time.perf_counter()
        out = model.generate(
            batch,
            attention_mask=torch.ones_like(batch),
            do_sample=False,
            min_new_tokens=NEW_TOKENS,
            max_new_tokens=NEW_TOKENS,
            pad_token_id=0,
        )
        print(
            f"batch {start // BATCH}: {out.shape[1] - PROMPT_LEN} tokens each, "
            f"{time.perf_counter() - began:.2f}s"
        )
        written.append(out.cpu())
    return torch.cat(written)


@torch.no_grad()
def score(model, texts):
    """Mean log-likelihood of the continuation under the model."""
    results = []
    for rows in texts.split(SCORE_BATCH):
        rows = rows.to(DEVICE)
        logits = model(rows, use_cache=False).logits[:, PROMPT_LEN - 1 : -1]
        targets = rows[:, PROMPT_LEN:]
        nll = F.cross_entropy(logits.float().transpose(1, 2), targets, reduction="none")
        results += nll.mean(dim=1).tolist()
    return results


def main():
    torch.manual_seed(0)
    model = load()
    total = sum(p.numel() for p in model.parameters())
    print(
        f"{total / 1e9:.2f}B parameters, {torch.cuda.memory_allocated() / 2**30 if DEVICE != 'cpu' else 0:.1f} GiB"
    )
    prompts = torch.randint(10, VOCAB, (PROMPTS, PROMPT_LEN))
    prompts[:, 0] = 2
    texts = continue_prompts(model, prompts)
    nll = score(model, texts)
    with open("gemma2_scores.jsonl", "w") as f:
        f.writelines(
            json.dumps({"nll": value, "ids": row[PROMPT_LEN:].tolist()}) + "\n"
            for row, value in zip(texts, nll)
        )
    print(f"perplexity of own text {math.exp(min(20, sum(nll) / len(nll))):.2f}")


if __name__ == "__main__":
    main()
