"""Compare greedy, sampled and beam search decoding of a Qwen-like model, in seconds and tokens per second."""

import argparse
import time

import torch
from transformers import GenerationConfig, Qwen2Config, Qwen2ForCausalLM

PROMPTS = [
    "Write a short story about a lighthouse keeper who",
    "The three most important things to know about bees are",
    "Dear Sir or Madam, I am writing to",
    "def quicksort(items):",
    "In the beginning there was only",
    "Q: Why is the sky blue? A:",
]


class ByteTokenizer:
    """Every byte is a token; 256 pads, 257 ends."""

    pad_id, eos_id, vocab_size = 256, 257, 260

    def __call__(self, texts, device):
        rows = [list(t.encode()) for t in texts]
        width = max(map(len, rows))
        ids = [[self.pad_id] * (width - len(r)) + r for r in rows]
        mask = [[0] * (width - len(r)) + [1] * len(r) for r in rows]
        return {
            "input_ids": torch.tensor(ids, device=device),
            "attention_mask": torch.tensor(mask, device=device),
        }

    def decode(self, ids):
        return bytes(i for i in ids.tolist() if i < 256).decode(errors="replace")


def build(args, tokenizer, device):
    config = Qwen2Config(
        vocab_size=max(args.vocab, tokenizer.vocab_size),
        hidden_size=args.hidden,
        intermediate_size=args.hidden * 3,
        num_hidden_layers=args.layers,
        num_attention_heads=args.hidden // 64,
        num_key_value_heads=max(1, args.hidden // 512),
        pad_token_id=tokenizer.pad_id,
        eos_token_id=None,
        bos_token_id=None,
    )
    return Qwen2ForCausalLM(config).to(device, dtype=torch.bfloat16).eval()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--hidden", type=int, default=1536)
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--vocab", type=int, default=64000)
    parser.add_argument("--copies", type=int, default=8, help="how often each prompt is used")
    parser.add_argument("--new-tokens", type=int, default=96)
    args = parser.parse_args()
    torch.manual_seed(3)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    tokenizer = ByteTokenizer()
    model = build(args, tokenizer, device)
    print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.0f} M parameters on {device}")
    batch = tokenizer(PROMPTS * args.copies, device)

    ways = {
        "greedy": GenerationConfig(max_new_tokens=args.new_tokens, do_sample=False),
        "sampled": GenerationConfig(
            max_new_tokens=args.new_tokens, do_sample=True, temperature=0.8, top_p=0.95, top_k=50
        ),
        "beams": GenerationConfig(
            max_new_tokens=args.new_tokens // 2,
            num_beams=4,
            length_penalty=0.8,
            no_repeat_ngram_size=3,
        ),
    }
    for name, generation in ways.items():
        generation.pad_token_id = tokenizer.pad_id
        start = time.perf_counter()
        with torch.inference_mode():
            out = model.generate(**batch, generation_config=generation)
        if device == "cuda":
            torch.cuda.synchronize()
        seconds = time.perf_counter() - start
        made = (out.shape[1] - batch["input_ids"].shape[1]) * out.shape[0]
        print(f"{name}: {made} tokens in {seconds:.2f} s, {made / seconds:.0f} a second")
        print("   ", repr(tokenizer.decode(out[0])[:100]))


if __name__ == "__main__":
    main()
