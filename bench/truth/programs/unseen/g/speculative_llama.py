"""Speculative decoding by hand: a 1.1B draft proposes, a 7B target checks, caches cropped after each round."""

import os
import time

import torch
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM

DEVICE = "cuda"
SMALL = os.environ.get("SMALL", "0") == "1"
VOCAB = 32000 if not SMALL else 300
PROMPT = 1500 if not SMALL else 20
NEW = 200 if not SMALL else 16
LOOKAHEAD = 5


def llama(hidden, ffn, layers, heads, kv):
    config = LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=hidden,
        intermediate_size=ffn,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv,
        max_position_embeddings=4096,
    )
    torch.set_default_dtype(torch.bfloat16)
    with torch.device(DEVICE):
        model = LlamaForCausalLM(config)
    torch.set_default_dtype(torch.float32)
    return model.eval().requires_grad_(False)


def probs(logits, temperature):
    return torch.softmax(logits.float() / temperature, dim=-1)


@torch.no_grad()
def speculative(target, draft, prompt, new_tokens, temperature=0.8):
    tokens = prompt.clone()
    t_cache, d_cache = DynamicCache(), DynamicCache()
    # prefill both, all but the last token
    target(prompt[:, :-1], past_key_values=t_cache, use_cache=True, logits_to_keep=1)
    draft(prompt[:, :-1], past_key_values=d_cache, use_cache=True, logits_to_keep=1)
    accepted_total = rounds = 0
    while tokens.shape[1] - prompt.shape[1] < new_tokens:
        rounds += 1
        proposal = tokens
        q = []
        for _ in range(LOOKAHEAD):
            todo = proposal[:, d_cache.get_seq_length() :]
            logits = draft(todo, past_key_values=d_cache, use_cache=True).logits[:, -1]
            p = probs(logits, temperature)
            q.append(p)
            proposal = torch.cat([proposal, torch.multinomial(p, 1)], 1)
        todo = proposal[:, t_cache.get_seq_length() :]
        logits = target(todo, past_key_values=t_cache, use_cache=True).logits
        p = probs(logits[:, -LOOKAHEAD - 1 :], temperature)
        n = tokens.shape[1]
        keep = 0
        next_token = None
        for i in range(LOOKAHEAD):
            x = proposal[0, n + i]
            ratio = p[0, i, x] / q[i][0, x]
            if torch.rand((), device=tokens.device) < ratio:
                keep += 1
                continue
            residual = (p[0, i] - q[i][0]).clamp(min=0)
            next_token = torch.multinomial(residual / residual.sum(), 1)
            break
        if next_token is None:
            next_token = torch.multinomial(p[0, -1], 1)
        tokens = torch.cat([proposal[:, : n + keep], next_token[None]], 1)
        accepted_total += keep
        t_cache.crop(tokens.shape[1] - 1)
        d_cache.crop(min(d_cache.get_seq_length(), tokens.shape[1] - 1))
    return tokens, accepted_total / (rounds * LOOKAHEAD)


def main():
    torch.manual_seed(0)
    if SMALL:
        target, draft = llama(64, 128, 2, 4, 2), llama(32, 64, 1, 4, 2)
    else:
        target = llama(4096, 11008, 32, 32, 32)
        draft = llama(2048, 5632, 22, 32, 4)
    for name, m in (("target", target), ("draft", draft)):
        print(name, f"{sum(p.numel() for p in m.parameters()) / 1e9:.2f}B")
    for trial in range(2):
        prompt = torch.randint(5, VOCAB, (1, PROMPT), device=DEVICE)
        start = time.time()
        tokens, rate = speculative(target, draft, prompt, NEW)
        n = tokens.shape[1] - PROMPT
        print(f"trial {trial}: {n} tokens in {time.time() - start:.1f} s, acceptance {rate:.2f}")

    # the library's own assisted generation, for comparison
    prompt = torch.randint(5, VOCAB, (1, PROMPT), device=DEVICE)
    start = time.time()
    with torch.no_grad():
        out = target.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            assistant_model=draft,
            max_new_tokens=NEW // 4,
            do_sample=False,
            pad_token_id=0,
        )
    print(f"assisted: {out.shape[1] - PROMPT} tokens in {time.time() - start:.1f} s")


if __name__ == "__main__":
    main()
