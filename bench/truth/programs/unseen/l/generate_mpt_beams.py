"""Continue product descriptions with an MPT decoder (ALiBi): beam search with several returned sequences, then sequence scores."""

import argparse
import json
import os
import tempfile
import time

import torch
from transformers import MptConfig, MptForCausalLM


def build(args, device):
    config = MptConfig(
        d_model=args.width,
        n_heads=args.width // 128 if args.width >= 128 else 2,
        n_layers=args.layers,
        max_seq_len=args.prompt + args.new,
        vocab_size=args.vocab,
        use_cache=True,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )
    torch.set_default_dtype(torch.bfloat16)
    with device:
        model = MptForCausalLM(config)
    torch.set_default_dtype(torch.float32)
    return model.eval()


def prompts(n, length, vocab, seed):
    g = torch.Generator().manual_seed(seed)
    ids = torch.randint(3, vocab, (n, length), generator=g)
    mask = torch.ones_like(ids)
    for i in range(n):  # left padding
        cut = int(torch.randint(0, length // 3, (1,), generator=g))
        ids[i, :cut], mask[i, :cut] = 0, 0
    return ids, mask


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--width", type=int, default=2048)
    p.add_argument("--layers", type=int, default=16)
    p.add_argument("--vocab", type=int, default=50_368)
    p.add_argument("--items", type=int, default=24)
    p.add_argument("--batch", type=int, default=12)
    p.add_argument("--prompt", type=int, default=384)
    p.add_argument("--new", type=int, default=72)
    p.add_argument("--beams", type=int, default=5)
    p.add_argument("--keep", type=int, default=2)
    args = p.parse_args()
    torch.manual_seed(55)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = build(args, device)
    ids, mask = prompts(args.items, args.prompt, args.vocab, 1)
    rows = []
    for start in range(0, args.items, args.batch):
        tic = time.perf_counter()
        out = model.generate(
            input_ids=ids[start : start + args.batch].to(device),
            attention_mask=mask[start : start + args.batch].to(device),
            num_beams=args.beams,
            num_return_sequences=args.keep,
            max_new_tokens=args.new,
            min_new_tokens=args.new // 2,
            length_penalty=0.8,
            no_repeat_ngram_size=4,
            early_stopping=True,
            do_sample=False,
            return_dict_in_generate=True,
            output_scores=True,
        )
        took = time.perf_counter() - tic
        for seq, score in zip(out.sequences.cpu(), out.sequences_scores.cpu()):
            rows.append({"tokens": seq[args.prompt :].tolist(), "score": float(score)})
        print(
            f"batch at {start}: {out.sequences.shape[1] - args.prompt} tokens in {took:.1f}s, best {max(r['score'] for r in rows):.3f}"
        )
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "descriptions.jsonl"), "w") as f:
            f.writelines(json.dumps(r) + "\n" for r in rows)


if __name__ == "__main__":
    main()
