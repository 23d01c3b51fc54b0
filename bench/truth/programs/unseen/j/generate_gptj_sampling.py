"""Sample several continuations per prompt from a GPT-J in fp16 (top-k, top-p, temperature, repetition penalty)."""

import argparse
import logging

import torch
from transformers import GenerationConfig, GPTJConfig, GPTJForCausalLM, set_seed

logging.basicConfig(level=logging.INFO)
logger = logging.getLogger("sampling")


def arguments():
    ap = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    ap.add_argument("--embd", type=int, default=4096)
    ap.add_argument("--layers", type=int, default=14)
    ap.add_argument("--heads", type=int, default=16)
    ap.add_argument("--rotary", type=int, default=64)
    ap.add_argument("--vocab", type=int, default=50400)
    ap.add_argument("--prompts", type=int, default=8)
    ap.add_argument("--samples", type=int, default=4)
    ap.add_argument("--prompt", type=int, default=512)
    ap.add_argument("--new-tokens", type=int, default=160)
    ap.add_argument("--rounds", type=int, default=3)
    return ap.parse_args()


class Sampler:
    def __init__(self, args):
        self.args = args
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        config = GPTJConfig(
            vocab_size=args.vocab,
            n_embd=args.embd,
            n_layer=args.layers,
            n_head=args.heads,
            rotary_dim=args.rotary,
            n_positions=2048,
            bos_token_id=0,
            eos_token_id=0,
            pad_token_id=1,
        )
        with torch.device(self.device):
            self.model = GPTJForCausalLM(config)
        if self.device == "cuda":
            self.model.half()
        self.model.eval()
        self.generation = GenerationConfig(
            do_sample=True,
            top_k=50,
            top_p=0.92,
            temperature=0.8,
            repetition_penalty=1.1,
            num_return_sequences=args.samples,
            max_new_tokens=args.new_tokens,
            min_new_tokens=args.new_tokens,
            bos_token_id=0,
            eos_token_id=0,
            pad_token_id=1,
        )

    def __call__(self, prompts):
        prompts = prompts.to(self.device)
        with torch.no_grad():
            out = self.model.generate(
                input_ids=prompts,
                attention_mask=torch.ones_like(prompts),
                generation_config=self.generation,
            )
        return out[:, prompts.shape[1] :].view(len(prompts), self.args.samples, -1).cpu()


def main():
    args = arguments()
    set_seed(123)
    sampler = Sampler(args)
    for r in range(args.rounds):
        prompts = torch.randint(2, args.vocab, (args.prompts, args.prompt))
        texts = sampler(prompts)
        distinct = len(torch.unique(texts)) / texts.numel()
        logger.info("round %d: %s, distinct tokens %.2f", r, tuple(texts.shape), distinct)


if __name__ == "__main__":
    main()
