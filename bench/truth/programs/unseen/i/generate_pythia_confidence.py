"""Greedy answers of a Pythia-1B (GPT-NeoX) to left-padded questions, with the mean log-probability of each."""

import torch
from torch.utils.data import DataLoader, Dataset
from transformers import GPTNeoXConfig, GPTNeoXForCausalLM

DEVICE = "cuda"
QUESTIONS = 150
BATCH = 48
PROMPT = 384
ANSWER = 48
VOCAB = 50304
HIDDEN, LAYERS, HEADS, INTER = 2048, 16, 8, 8192


class Questions(Dataset):
    """Every question is padded on the left to PROMPT tokens."""

    def __init__(self, n):
        g = torch.Generator().manual_seed(0)
        self.length = torch.randint(PROMPT // 4, PROMPT, (n,), generator=g)
        self.ids = torch.randint(10, VOCAB, (n, PROMPT), generator=g)

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        mask = (torch.arange(PROMPT) >= PROMPT - self.length[i]).long()
        return {"input_ids": self.ids[i] * mask + (1 - mask), "attention_mask": mask}


@torch.no_grad()
def main():
    torch.manual_seed(0)
    config = GPTNeoXConfig(
        vocab_size=VOCAB,
        hidden_size=HIDDEN,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        intermediate_size=INTER,
        max_position_embeddings=2048,
        rope_parameters={
            "rope_type": "default",
            "rope_theta": 10000.0,
            "partial_rotary_factor": 0.25,
        },
        bos_token_id=0,
        eos_token_id=0,
        pad_token_id=1,
    )
    with torch.device(DEVICE):
        model = GPTNeoXForCausalLM(config)
    model = model.half().eval()
    rows = []
    for batch in DataLoader(Questions(QUESTIONS), batch_size=BATCH):
        batch = {k: v.to(DEVICE) for k, v in batch.items()}
        out = model.generate(
            **batch,
            do_sample=False,
            max_new_tokens=ANSWER,
            min_new_tokens=ANSWER,
            return_dict_in_generate=True,
            output_scores=True,
        )
        logp = model.compute_transition_scores(out.sequences, out.scores, normalize_logits=True)
        finite = torch.isfinite(logp)
        mean = torch.where(finite, logp, 0).sum(-1) / finite.sum(-1).clamp(min=1)
        for answer, score in zip(out.sequences[:, PROMPT:].tolist(), mean.tolist()):
            rows.append((score, answer))
        print(f"{len(rows)}/{QUESTIONS} mean logp {mean.mean().item():.3f}")
    rows.sort(reverse=True)
    with open("answers.tsv", "w") as f:
        for score, answer in rows:
            f.write(f"{score:.4f}\t{' '.join(map(str, answer))}\n")
    print("peak", torch.cuda.max_memory_allocated() // 2**20, "MiB")


if __name__ == "__main__":
    main()
