"""A small chat service: a Llama of 1 billion parameters answers, padded on the left, greedy, then with beams."""

import argparse
import random
import time

import torch
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM


def batch_of_prompts(rng, count, shortest, longest, vocab):
    prompts = [
        [rng.randrange(3, vocab) for _ in range(rng.randint(shortest, longest))]
        for _ in range(count)
    ]
    width = max(map(len, prompts))
    ids = torch.tensor([[0] * (width - len(q)) + q for q in prompts])
    return ids, (ids != 0).long()


class Service:
    def __init__(self, model, device):
        self.model, self.device = model, device

    def answer(self, ids, mask, config):
        began = time.perf_counter()
        with torch.inference_mode():
            out = self.model.generate(
                input_ids=ids.to(self.device),
                attention_mask=mask.to(self.device),
                generation_config=config,
            )
        text = out[:, ids.size(1) :].cpu()
        return text, text.numel() / (time.perf_counter() - began)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--vocab", type=int, default=64000)
    p.add_argument("--hidden", type=int, default=2048)
    p.add_argument("--layers", type=int, default=16)
    p.add_argument("--prompts", type=int, default=24)
    p.add_argument("--rounds", type=int, default=2)
    p.add_argument("--longest", type=int, default=600)
    p.add_argument("--new", type=int, default=96)
    p.add_argument("--beams", type=int, default=5)
    p.add_argument("--beam-prompts", type=int, default=6)
    a = p.parse_args()
    torch.manual_seed(23)
    rng = random.Random(23)
    gpu = torch.cuda.is_available()
    device = torch.device("cuda" if gpu else "cpu")
    config = LlamaConfig(
        vocab_size=a.vocab,
        hidden_size=a.hidden,
        intermediate_size=a.hidden * 11 // 4,
        num_hidden_layers=a.layers,
        num_attention_heads=max(2, a.hidden // 64),
        num_key_value_heads=max(1, a.hidden // 256),
        max_position_embeddings=4096,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=0,
    )
    torch.set_default_dtype(torch.bfloat16 if gpu else torch.float32)
    with device:
        model = LlamaForCausalLM(config).eval()
    torch.set_default_dtype(torch.float32)
    print(f"{sum(q.numel() for q in model.parameters()) / 1e9:.2f} billion parameters")
    service = Service(model, device)
    shared = {"max_new_tokens": a.new, "pad_token_id": 0, "eos_token_id": 2}
    greedy = GenerationConfig(do_sample=False, **shared)
    beams = GenerationConfig(
        do_sample=False,
        num_beams=a.beams,
        num_return_sequences=2,
        length_penalty=0.8,
        **shared,
    )
    for round_ in range(a.rounds):
        ids, mask = batch_of_prompts(rng, a.prompts, a.longest // 8, a.longest, a.vocab)
        text, speed = service.answer(ids, mask, greedy)
        print(f"greedy {round_}: {tuple(text.shape)} {speed:.0f} words/s")
    ids, mask = batch_of_prompts(rng, a.beam_prompts, a.longest // 2, a.longest, a.vocab)
    text, speed = service.answer(ids, mask, beams)
    print(f"beams: {tuple(text.shape)} {speed:.0f} words/s")


if __name__ == "__main__":
    main()
