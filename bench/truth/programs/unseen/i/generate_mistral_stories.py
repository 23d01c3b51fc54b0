"""Sample several continuations per prompt from a 1.1B Mistral, for prompts of three fixed lengths."""

import argparse
import json
import time

import torch
from transformers import AutoModelForCausalLM, GenerationConfig, MistralConfig

parser = argparse.ArgumentParser()
parser.add_argument("--prompts", type=int, default=12)
parser.add_argument("--per-prompt", type=int, default=4)
parser.add_argument("--lengths", type=int, nargs="+", default=[128, 512, 1500])
parser.add_argument("--new", type=int, default=80)
parser.add_argument("--hidden", type=int, default=2048)
parser.add_argument("--layers", type=int, default=22)
parser.add_argument("--vocab", type=int, default=32000)
parser.add_argument("--device", default="cuda")
args = parser.parse_args()


def build():
    config = MistralConfig(
        vocab_size=args.vocab,
        hidden_size=args.hidden,
        intermediate_size=args.hidden * 11 // 4,
        num_hidden_layers=args.layers,
        num_attention_heads=32,
        num_key_value_heads=8,
        sliding_window=1024,
        max_position_embeddings=8192,
        pad_token_id=0,
    )
    with torch.device(args.device):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    return model.eval()


def main():
    torch.manual_seed(1234)
    model = build()
    print(f"{model.num_parameters() / 1e9:.2f}B parameters")
    sampling = GenerationConfig(
        do_sample=True,
        temperature=0.8,
        top_p=0.92,
        top_k=0,
        repetition_penalty=1.1,
        num_return_sequences=args.per_prompt,
        max_new_tokens=args.new,
        min_new_tokens=args.new // 2,
        pad_token_id=0,
        eos_token_id=2,
        bos_token_id=1,
    )
    report = []
    for length in args.lengths:
        prompts = torch.randint(3, args.vocab, (args.prompts, length), device=args.device)
        started = time.time()
        with torch.inference_mode():
            out = model.generate(
                prompts, attention_mask=torch.ones_like(prompts), generation_config=sampling
            )
        stories = out[:, length:].view(args.prompts, args.per_prompt, -1)
        distinct = sum(len(set(s.flatten().tolist())) for s in stories) / stories.numel()
        row = {
            "prompt": length,
            "generated": stories.numel(),
            "distinct": round(distinct, 3),
            "seconds": round(time.time() - started, 2),
            "peak_gib": round(torch.cuda.max_memory_allocated() / 2**30, 2),
        }
        print(row)
        report.append(row)
    with open("stories.json", "w") as f:
        json.dump(report, f, indent=1)


if __name__ == "__main__":
    main()
