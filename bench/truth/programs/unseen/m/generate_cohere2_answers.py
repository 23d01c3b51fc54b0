"""Answer support questions with a Cohere2-like model in bf16: a greedy pass over left-padded prompts, then four sampled candidates per prompt; prints the throughput."""

import argparse
import time

import torch
from torch.utils.data import DataLoader, Dataset
from transformers import Cohere2Config, Cohere2ForCausalLM, GenerationConfig


class Questions(Dataset):
    def __init__(self, n, longest, vocab, seed=0):
        g = torch.Generator().manual_seed(seed)
        lengths = torch.randint(longest // 4, longest + 1, (n,), generator=g).tolist()
        self.prompts = [torch.randint(10, vocab, (k,), generator=g) for k in lengths]

    def __len__(self):
        return len(self.prompts)

    def __getitem__(self, i):
        return self.prompts[i]


def left_pad(prompts, pad=0):
    longest = max(map(len, prompts))
    ids = torch.full((len(prompts), longest), pad)
    for row, prompt in zip(ids, prompts):
        row[longest - len(prompt) :] = prompt
    return {"input_ids": ids, "attention_mask": (ids != pad).long()}


def answer(model, loader, config, device):
    produced, began, texts = 0, time.perf_counter(), []
    for batch in loader:
        batch = {k: v.to(device) for k, v in batch.items()}
        out = model.generate(**batch, generation_config=config)
        fresh = out[:, batch["input_ids"].size(1) :]
        produced += fresh.numel()
        texts += fresh.cpu().tolist()
    seconds = time.perf_counter() - began
    print(f"{len(texts)} answers, {produced / seconds:.0f} tokens/s in {seconds:.1f} s")
    return texts


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--device", default="cuda")
    p.add_argument("--vocab", type=int, default=128_000)
    p.add_argument("--hidden", type=int, default=2048)
    p.add_argument("--layers", type=int, default=24)
    p.add_argument("--window", type=int, default=512)
    p.add_argument("--prompts", type=int, default=56)
    p.add_argument("--longest", type=int, default=700)
    p.add_argument("--batch", type=int, default=32)
    p.add_argument("--new", type=int, default=40)
    p.add_argument("--candidates", type=int, default=4)
    a = p.parse_args()
    torch.manual_seed(30)

    config = Cohere2Config(
        vocab_size=a.vocab,
        hidden_size=a.hidden,
        intermediate_size=a.hidden * 7 // 2,
        num_hidden_layers=a.layers,
        num_attention_heads=a.hidden // 128,
        num_key_value_heads=max(1, a.hidden // 512),
        sliding_window=a.window,
        eos_token_id=1,
        bos_token_id=2,
        pad_token_id=0,
    )
    with torch.device(a.device):
        model = Cohere2ForCausalLM(config).to(torch.bfloat16).eval()
    print(f"{model.num_parameters() / 1e9:.2f}B parameters")
    questions = Questions(a.prompts, a.longest, a.vocab)

    greedy = GenerationConfig(max_new_tokens=a.new, do_sample=False, pad_token_id=0, eos_token_id=1)
    first = answer(model, DataLoader(questions, a.batch, collate_fn=left_pad), greedy, a.device)

    sampling = GenerationConfig(
        max_new_tokens=a.new,
        do_sample=True,
        temperature=0.8,
        top_p=0.95,
        top_k=50,
        num_return_sequences=a.candidates,
        pad_token_id=0,
        eos_token_id=1,
    )
    loader = DataLoader(questions, a.batch // 2, collate_fn=left_pad)
    drawn = answer(model, loader, sampling, a.device)
    agree = sum(
        drawn[i * a.candidates + k][:5] == first[i][:5]
        for i in range(len(first))
        for k in range(a.candidates)
    )
    print(f"{agree} of {len(drawn)} candidates begin as the greedy answer does")


if __name__ == "__main__":
    main()
