"""Long documents read by a Llama of 3 billion parameters in pieces of 1,024 tokens, then drawn token by token."""

import argparse
import time

import torch
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM


def nucleus(logits, temperature, top_p):
    """Draws from the smallest set of tokens that has a share of top_p."""
    p = torch.softmax(logits.float() / temperature, dim=-1)
    ordered, index = p.sort(dim=-1, descending=True)
    beyond = ordered.cumsum(-1) - ordered > top_p
    ordered[beyond] = 0.0
    ordered /= ordered.sum(-1, keepdim=True)
    return index.gather(-1, torch.multinomial(ordered, 1))


@torch.no_grad()
def prefill(model, ids, chunk, cache):
    for start in range(0, ids.shape[1], chunk):
        piece = ids[:, start : start + chunk]
        out = model(piece, past_key_values=cache, use_cache=True, logits_to_keep=1)
    return out.logits[:, -1]


@torch.no_grad()
def decode(model, logits, cache, steps, temperature, top_p, eos):
    done = torch.zeros(len(logits), dtype=torch.bool, device=logits.device)
    written = []
    for _ in range(steps):
        token = nucleus(logits, temperature, top_p)
        token[done] = eos
        written.append(token)
        done |= token[:, 0] == eos
        if done.all():
            break
        logits = model(token, past_key_values=cache, use_cache=True).logits[:, -1]
    return torch.cat(written, 1)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--hidden", type=int, default=3072)
    p.add_argument("--layers", type=int, default=28)
    p.add_argument("--heads", type=int, default=24)
    p.add_argument("--vocab", type=int, default=128256)
    p.add_argument("--documents", type=int, default=8)
    p.add_argument("--length", type=int, default=6144)
    p.add_argument("--chunk", type=int, default=1024)
    p.add_argument("--steps", type=int, default=96)
    p.add_argument("--rounds", type=int, default=2)
    a = p.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.set_default_dtype(torch.bfloat16)
    with device:
        model = LlamaForCausalLM(
            LlamaConfig(
                vocab_size=a.vocab,
                hidden_size=a.hidden,
                intermediate_size=a.hidden * 8 // 3,
                num_hidden_layers=a.layers,
                num_attention_heads=a.heads,
                num_key_value_heads=a.heads // 3,
                max_position_embeddings=131072,
                rms_norm_eps=1e-5,
                tie_word_embeddings=True,
            )
        )
    torch.set_default_dtype(torch.float32)
    model.eval()
    if device.type == "cuda":
        print(
            torch.cuda.get_device_name(),
            f"{torch.cuda.memory_allocated() / 2**30:.2f} GiB of weights",
        )
    for number in range(a.rounds):
        ids = torch.randint(10, a.vocab, (a.documents, a.length), device=device)
        cache = DynamicCache()
        if device.type == "cuda":
            torch.cuda.synchronize()
        began = time.perf_counter()
        logits = prefill(model, ids, a.chunk, cache)
        if device.type == "cuda":
            torch.cuda.synchronize()
        read = time.perf_counter() - began
        out = decode(model, logits, cache, a.steps, 0.8, 0.95, eos=2)
        took = time.perf_counter() - began - read
        print(
            f"round {number}: {ids.numel() / read:.0f} tokens/s read,"
            f" {out.numel() / took:.0f} tokens/s written, cache of {cache.get_seq_length()} tokens"
        )
        if device.type == "cuda":
            print(torch.cuda.memory_summary(abbreviated=True))
        del cache


if __name__ == "__main__":
    main()
