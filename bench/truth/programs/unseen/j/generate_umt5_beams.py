# Translate a file of sentences with a umT5-XL-sized model, five beams, bf16.
# The sentences are sorted by length so that little is padded.
import torch
from transformers import UMT5Config, UMT5ForConditionalGeneration

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SENTENCES = 96
BATCH = 24
BEAMS = 5
MAX_TARGET = 64
VOCAB = 256384

torch.manual_seed(4)

config = UMT5Config(
    vocab_size=VOCAB,
    d_model=2048,
    d_kv=64,
    d_ff=5120,
    num_layers=24,
    num_heads=32,
    decoder_start_token_id=0,
    pad_token_id=0,
    eos_token_id=1,
)
with torch.device(DEVICE):
    model = UMT5ForConditionalGeneration(config)
model = model.to(torch.bfloat16).eval()
print("weights: %.2f GB" % (sum(p.numel() * p.element_size() for p in model.parameters()) / 1e9))

lengths = torch.randint(20, 300, (SENTENCES,)).sort(descending=True).values.tolist()
sentences = [torch.randint(2, VOCAB, (n,)).tolist() + [1] for n in lengths]


def batches(items, size):
    for i in range(0, len(items), size):
        part = items[i : i + size]
        width = max(map(len, part))
        ids = torch.tensor([s + [0] * (width - len(s)) for s in part])
        mask = torch.tensor([[1] * len(s) + [0] * (width - len(s)) for s in part])
        yield ids.to(DEVICE), mask.to(DEVICE)


translations = []
for ids, mask in batches(sentences, BATCH):
    with torch.no_grad():
        out = model.generate(
            input_ids=ids,
            attention_mask=mask,
            num_beams=BEAMS,
            length_penalty=1.2,
            no_repeat_ngram_size=3,
            early_stopping=False,
            max_new_tokens=MAX_TARGET,
            min_new_tokens=MAX_TARGET,
        )
    translations += out.cpu().tolist()
    print(f"{len(translations)}/{SENTENCES} done, source width {ids.shape[1]}")
