"""Beam search with a T5Gemma encoder-decoder: summaries of long reports in bf16, several beam widths one after the other."""

import gc
import time

import torch
from transformers import (
    T5GemmaConfig,
    T5GemmaForConditionalGeneration,
    T5GemmaModuleConfig,
)

SETTINGS = dict(hidden=1024, inner=4096, layers=12, heads=8, kv=4, head_dim=128, vocab=128000)
REPORT = 1024
SUMMARY = 64


def half(s, **extra):
    return T5GemmaModuleConfig(
        vocab_size=s["vocab"],
        hidden_size=s["hidden"],
        intermediate_size=s["inner"],
        num_hidden_layers=s["layers"],
        num_attention_heads=s["heads"],
        num_key_value_heads=s["kv"],
        head_dim=s["head_dim"],
        query_pre_attn_scalar=s["head_dim"],
        max_position_embeddings=2048,
        sliding_window=512,
        **extra,
    )


def load(device):
    config = T5GemmaConfig(
        encoder=half(SETTINGS), decoder=half(SETTINGS), vocab_size=SETTINGS["vocab"]
    )
    with device:
        model = T5GemmaForConditionalGeneration(config)
    return model.to(torch.bfloat16).eval()


class Summarizer:
    def __init__(self, device):
        self.device = device
        self.model = load(device)

    @torch.no_grad()
    def __call__(self, reports, mask, beams):
        return self.model.generate(
            input_ids=reports,
            attention_mask=mask,
            num_beams=beams,
            max_new_tokens=SUMMARY,
            min_new_tokens=SUMMARY // 2,
            length_penalty=1.2,
            no_repeat_ngram_size=3,
            early_stopping=True,
            do_sample=False,
            decoder_start_token_id=2,
        )


def main():
    torch.manual_seed(14)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    summarize = Summarizer(device)
    print(f"{summarize.model.num_parameters() / 1e6:.0f}M parameters")
    for beams, n in [(1, 16), (4, 16), (8, 12)]:
        reports = torch.randint(5, SETTINGS["vocab"], (n, REPORT), device=device)
        mask = torch.ones_like(reports)
        for row in range(n):
            cut = int(torch.randint(REPORT // 2, REPORT + 1, (1,)))
            reports[row, cut:] = 0
            mask[row, cut:] = 0
        t = time.perf_counter()
        out = summarize(reports, mask, beams)
        print(f"beams {beams}: {tuple(out.shape)} in {time.perf_counter() - t:.1f} s")
        del out
        gc.collect()


if __name__ == "__main__":
    main()
