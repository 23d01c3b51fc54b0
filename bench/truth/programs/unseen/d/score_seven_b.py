"""Judge a 7B Qwen2 as evaluation harnesses do: the likelihood of each answer, longest first, then free answers."""

import argparse
import random
import time

import torch
import torch.nn.functional as F
from transformers import AutoModelForCausalLM, Qwen2Config
from transformers.utils import logging

logging.set_verbosity_error()


def make_requests(count, vocab, shortest, longest, seed):
    """Each question has four answers: (context, continuation) of ids."""
    rng = random.Random(seed)
    requests = []
    for question in range(count):
        context = [rng.randrange(100, vocab) for _ in range(rng.randint(shortest, longest))]
        for choice in range(4):
            answer = [rng.randrange(100, vocab) for _ in range(rng.randint(2, 12))]
            requests.append({"id": (question, choice), "context": context, "answer": answer})
    return requests


@torch.inference_mode()
def loglikelihoods(model, requests, batch_size):
    ordered = sorted(requests, key=lambda r: -len(r["context"]) - len(r["answer"]))
    scores = {}
    for i in range(0, len(ordered), batch_size):
        chunk = ordered[i : i + batch_size]
        rows = [(r["context"] + r["answer"])[:-1] for r in chunk]
        width = max(len(r) for r in rows)
        ids = torch.tensor([r + [0] * (width - len(r)) for r in rows], device=model.device)
        logits = F.log_softmax(model(ids).logits.float(), dim=-1)
        for r, row, line in zip(chunk, rows, logits):
            n = len(r["answer"])
            part = line[len(row) - n : len(row)]
            target = torch.tensor(r["answer"], device=line.device)
            scores[r["id"]] = part.gather(1, target[:, None]).sum().item()
    return scores


@torch.inference_mode()
def answer(model, contexts, new):
    width = max(map(len, contexts))
    ids = torch.tensor([[0] * (width - len(c)) + c for c in contexts], device=model.device)
    out = model.generate(
        ids,
        attention_mask=(ids != 0).long(),
        max_new_tokens=new,
        do_sample=False,
        pad_token_id=0,
        eos_token_id=1,
    )
    return out[:, width:].tolist()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--hidden", type=int, default=3584)
    p.add_argument("--inner", type=int, default=18944)
    p.add_argument("--layers", type=int, default=28)
    p.add_argument("--heads", type=int, default=28)
    p.add_argument("--vocab", type=int, default=152064)
    p.add_argument("--questions", type=int, default=10)
    p.add_argument("--shortest", type=int, default=120)
    p.add_argument("--longest", type=int, default=420)
    p.add_argument("--batch", type=int, default=4)
    p.add_argument("--new", type=int, default=40)
    a = p.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    config = Qwen2Config(
        vocab_size=a.vocab,
        hidden_size=a.hidden,
        intermediate_size=a.inner,
        num_hidden_layers=a.layers,
        num_attention_heads=a.heads,
        num_key_value_heads=4,
        max_position_embeddings=32768,
        tie_word_embeddings=False,
    )
    with device:
        model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    model.eval()
    print(f"{model.num_parameters() / 1e9:.2f}B parameters on {model.device}")
    requests = make_requests(a.questions, a.vocab, a.shortest, a.longest, 1)
    began = time.time()
    scores = loglikelihoods(model, requests, a.batch)
    best = [max(range(4), key=lambda choice: scores[q, choice]) for q in range(a.questions)]
    print(f"right {best.count(0) / a.questions:.2f} in {time.time() - began:.1f} s")
    contexts = [r["context"] for r in requests[::4]]
    texts = [
        t
        for i in range(0, len(contexts), a.batch)
        for t in answer(model, contexts[i : i + a.batch], a.new)
    ]
    print(f"{sum(map(len, texts))} tokens written in {time.time() - began:.1f} s")


if __name__ == "__main__":
    main()
