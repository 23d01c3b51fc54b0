"""How fast does a Pythia of 1.4 billion parameters write? Four ways of generate(), timed, with memory."""

import argparse
import gc
import json
import time

import torch
from transformers import GPTNeoXConfig, GPTNeoXForCausalLM

GIB = 2**30


def synchronize():
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def memory(label):
    if torch.cuda.is_available():
        print(
            f"{label}: allocated {torch.cuda.memory_allocated() / GIB:.2f} GiB,"
            f" reserved {torch.cuda.memory_reserved() / GIB:.2f} GiB,"
            f" peak {torch.cuda.max_memory_allocated() / GIB:.2f} GiB"
        )


def timed(model, batch, prompt, new, repeats, **how):
    ids = torch.randint(10, model.config.vocab_size - 10, (batch, prompt), device=model.device)
    mask = torch.ones_like(ids)
    mask[::2, : prompt // 4] = 0
    seconds = []
    for _ in range(repeats):
        synchronize()
        start = time.perf_counter()
        out = model.generate(
            ids, attention_mask=mask, max_new_tokens=new, min_new_tokens=new, pad_token_id=0, **how
        )
        synchronize()
        seconds.append(time.perf_counter() - start)
    return {
        "rows": out.shape[0],
        "seconds": min(seconds),
        "rate": out.shape[0] * new / min(seconds),
    }


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--hidden", type=int, default=2048)
    p.add_argument("--layers", type=int, default=24)
    p.add_argument("--vocab", type=int, default=50304)
    p.add_argument("--prompt", type=int, default=384)
    p.add_argument("--new", type=int, default=64)
    p.add_argument("--batch", type=int, default=16)
    p.add_argument("--repeats", type=int, default=1)
    a = p.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    config = GPTNeoXConfig(
        vocab_size=a.vocab,
        hidden_size=a.hidden,
        num_hidden_layers=a.layers,
        num_attention_heads=a.hidden // 128,
        intermediate_size=4 * a.hidden,
        max_position_embeddings=2048,
        bos_token_id=0,
        eos_token_id=0,
    )
    with device:
        model = GPTNeoXForCausalLM(config)
    model = model.half().eval() if device.type == "cuda" else model.eval()
    memory("built")
    gc.collect()
    torch.cuda.empty_cache()
    memory("emptied")

    ways = {
        "greedy": {"batch": a.batch, "do_sample": False},
        "sampled": {
            "batch": a.batch // 4,
            "do_sample": True,
            "top_p": 0.95,
            "temperature": 0.7,
            "num_return_sequences": 8,
        },
        "top-k with penalty": {
            "batch": a.batch,
            "do_sample": True,
            "top_k": 40,
            "repetition_penalty": 1.2,
        },
        "beams": {
            "batch": a.batch // 2,
            "do_sample": False,
            "num_beams": 5,
            "length_penalty": 0.8,
        },
    }
    results = {}
    for name, how in ways.items():
        results[name] = timed(model, prompt=a.prompt, new=a.new, repeats=a.repeats, **how)
        memory(name)
        torch.cuda.empty_cache()
    with open("generate_bench.json", "w") as file:
        json.dump(results, file, indent=2)
    for name, r in results.items():
        print(f"{name:>20}: {r['rows']} rows, {r['seconds']:.2f} s, {r['rate']:.0f} tokens/s")


if __name__ == "__main__":
    main()
