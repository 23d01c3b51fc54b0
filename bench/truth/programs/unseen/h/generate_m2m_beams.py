"""Translate a corpus with a 1.2B M2M-100: sorted by length, padded to the longest, beam search in fp16."""

import argparse
import random
import time

import torch
from transformers import M2M100Config, M2M100ForConditionalGeneration

PAD, EOS, START = 1, 2, 2
LANG_FR, LANG_DE = 128028, 128020


def corpus(n, longest, vocab, lang):
    rng = random.Random(17)
    lines = []
    for _ in range(n):
        length = rng.randint(8, longest)
        lines.append([lang] + [rng.randrange(10, vocab - 150) for _ in range(length - 2)] + [EOS])
    return lines


def batches(lines, size):
    order = sorted(range(len(lines)), key=lambda i: -len(lines[i]))
    for k in range(0, len(order), size):
        picked = order[k : k + size]
        longest = len(lines[picked[0]])
        ids = torch.full((len(picked), longest), PAD)
        for row, i in enumerate(picked):
            ids[row, : len(lines[i])] = torch.tensor(lines[i])
        yield picked, ids


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--d_model", type=int, default=1024)
    p.add_argument("--layers", type=int, default=24)
    p.add_argument("--ffn", type=int, default=8192)
    p.add_argument("--vocab", type=int, default=128112)
    p.add_argument("--lines", type=int, default=84)
    p.add_argument("--longest", type=int, default=160)
    p.add_argument("--batch", type=int, default=24)
    p.add_argument("--beams", type=int, default=5)
    p.add_argument("--max_new_tokens", type=int, default=48)
    p.add_argument("--out", default="translations.txt")
    a = p.parse_args()

    config = M2M100Config(
        vocab_size=a.vocab,
        d_model=a.d_model,
        encoder_layers=a.layers,
        decoder_layers=a.layers,
        encoder_attention_heads=16,
        decoder_attention_heads=16,
        encoder_ffn_dim=a.ffn,
        decoder_ffn_dim=a.ffn,
        max_position_embeddings=1024,
        pad_token_id=PAD,
        eos_token_id=EOS,
        decoder_start_token_id=START,
        encoder_layerdrop=0.0,
        decoder_layerdrop=0.0,
    )
    with torch.device("cuda"):
        model = M2M100ForConditionalGeneration(config)
    model = model.half().eval()
    print(f"{model.num_parameters() / 1e6:.0f}M parameters")

    target = min(LANG_DE, a.vocab - 1)
    lines = corpus(a.lines, a.longest, a.vocab, min(LANG_FR, a.vocab - 2))
    results, scores = [None] * len(lines), [0.0] * len(lines)
    began, tokens = time.time(), 0
    for picked, ids in batches(lines, a.batch):
        ids = ids.to("cuda")
        with torch.inference_mode():
            out = model.generate(
                input_ids=ids,
                attention_mask=(ids != PAD).long(),
                num_beams=a.beams,
                max_new_tokens=a.max_new_tokens,
                length_penalty=1.0,
                no_repeat_ngram_size=3,
                early_stopping=True,
                forced_bos_token_id=target,
                return_dict_in_generate=True,
                output_scores=False,
            )
        for row, i in enumerate(picked):
            results[i] = [t for t in out.sequences[row].tolist() if t not in (PAD, EOS)]
            if out.get("sequences_scores") is not None:
                scores[i] = out.sequences_scores[row].item()
        tokens += out.sequences.numel()
        print(
            f"{ids.shape[0]} x {ids.shape[1]} -> {tuple(out.sequences.shape)}  {tokens / (time.time() - began):.0f} tok/s"
        )
    with open(a.out, "w") as f:
        f.writelines(f"{s:.3f}\t{' '.join(map(str, line))}\n" for line, s in zip(results, scores))


if __name__ == "__main__":
    main()
