"""One model of 1.6 billion parameters writes: greedily, with beams, and many samples for each prompt."""

import gc
import time

import torch
from transformers import LlamaConfig, LlamaForCausalLM, LogitsProcessor, LogitsProcessorList

VOCAB, LAYERS, WIDTH = 64000, 22, 2304
PROMPTS, LONGEST, NEW = 48, 192, 80
device = "cuda" if torch.cuda.is_available() else "cpu"


class NoRepeats(LogitsProcessor):
    def __init__(self, window=16):
        self.window = window

    def __call__(self, input_ids, scores):
        return scores.scatter(1, input_ids[:, -self.window :], float("-inf"))


def build():
    config = LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=WIDTH,
        intermediate_size=WIDTH * 8 // 3 // 64 * 64,
        num_hidden_layers=LAYERS,
        num_attention_heads=WIDTH // 96,
        num_key_value_heads=WIDTH // 96 // 4,
        max_position_embeddings=2048,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )
    torch.set_default_dtype(torch.bfloat16)
    with torch.device(device):
        model = LlamaForCausalLM(config)
    torch.set_default_dtype(torch.float32)
    return model.eval()


def left_padded(count, longest):
    g = torch.Generator().manual_seed(4)
    ids = torch.randint(3, VOCAB, (count, longest), generator=g)
    gaps = torch.randint(0, longest // 2, (count, 1), generator=g)
    mask = (torch.arange(longest) >= gaps).long()
    return (ids * mask).to(device), mask.to(device)


def report(title, out, start):
    print(f"{title}: {tuple(out.shape)} in {time.time() - start:.1f} s")
    if device == "cuda":
        print(
            f"  now {torch.cuda.memory_allocated() >> 20} MiB, most {torch.cuda.max_memory_allocated() >> 20} MiB"
        )
        torch.cuda.reset_peak_memory_stats()


@torch.inference_mode()
def main():
    torch.manual_seed(0)
    model = build()
    print(f"{sum(p.numel() for p in model.parameters()) / 1e9:.2f} billion parameters")
    ids, mask = left_padded(PROMPTS, LONGEST)
    start = time.time()
    out = model.generate(
        ids,
        attention_mask=mask,
        do_sample=False,
        max_new_tokens=NEW,
        min_new_tokens=NEW,
        pad_token_id=0,
    )
    report("greedy", out, start)

    start = time.time()
    out = model.generate(
        ids[: PROMPTS // 2],
        attention_mask=mask[: PROMPTS // 2],
        num_beams=6,
        do_sample=False,
        length_penalty=0.8,
        early_stopping=False,
        max_new_tokens=NEW // 2,
        min_new_tokens=NEW // 2,
        num_return_sequences=2,
        pad_token_id=0,
    )
    report("beams", out, start)
    gc.collect()
    torch.cuda.empty_cache()

    start = time.time()
    out = model.generate(
        ids,
        attention_mask=mask,
        do_sample=True,
        temperature=0.9,
        top_p=0.95,
        top_k=0,
        num_return_sequences=8,
        max_new_tokens=NEW,
        min_new_tokens=NEW,
        logits_processor=LogitsProcessorList([NoRepeats()]),
        return_dict_in_generate=True,
        output_scores=False,
        pad_token_id=0,
    )
    report("samples", out.sequences, start)
    logits = model(out.sequences[:PROMPTS], use_cache=False).logits[:, LONGEST - 1 : -1]
    chosen = out.sequences[:PROMPTS, LONGEST:, None]
    score = logits.float().log_softmax(-1).gather(-1, chosen).mean((1, 2))
    print("best of the first:", score.argmax().item())
    report("scores", score, start)


if __name__ == "__main__":
    main()
