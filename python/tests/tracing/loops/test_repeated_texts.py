"""Calls of `generate()` on prompts of the same shape: two that ask for the same are run, the next are written down."""

import unittest

from tracing.kinds.traced_program import rows_of

PROGRAM = """
import torch
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM

config = LlamaConfig(
    vocab_size=320, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4
)
model = LlamaForCausalLM(config).cuda().eval()
runs = []
model.model.layers[0].register_forward_pre_hook(lambda *_: runs.append(1))
prompts = torch.arange(3, 35).view(4, 8)
texts = []

def generate(**settings):
    before = len(runs)
    texts.append(model.generate(prompts.cuda(), pad_token_id=0, eos_token_id=2, **settings))
    return len(runs) - before

ran = [generate(max_new_tokens=12, num_beams=2) for _ in range(6)]
assert ran[0] > 0 and ran[1] > 0 and ran[-2:] == [0, 0], ran
# Other settings are another kind of call, those of the model as well.
assert generate(max_new_tokens=16, num_beams=2) > 0
assert generate(generation_config=GenerationConfig(max_new_tokens=12, num_beams=3)) > 0
model.generation_config.repetition_penalty = 1.5
assert generate(max_new_tokens=12, num_beams=2) > 0
model.generation_config.repetition_penalty = None
assert generate(max_new_tokens=12, num_beams=2) == 0
# Trainers write the defaults down.
defaults = GenerationConfig._get_default_generation_params()
model.generation_config.update(**{**defaults, "max_length": None})
assert generate(max_new_tokens=12, num_beams=2) == 0
model.half()
assert generate(max_new_tokens=12, num_beams=2) > 0

first, last = texts[0], texts[5]
assert last.shape == first.shape == (4, 20) and last.dtype == first.dtype and last.is_cuda
assert last[:, :8].tolist() == prompts.tolist()
assert all(2 < word < 320 for word in last[0].tolist())
last[0, 0] = 7
assert texts[4][0, 0].item() == prompts[0, 0].item()
"""


class RepeatedTexts(unittest.TestCase):
    def test_the_next_calls_ask_for_the_same_without_being_run(self):
        asked = 0
        calls = []
        for row in rows_of(self, PROGRAM)[1:-1]:
            if row[0] == "a":
                asked += 1
            elif row[0] == "m":
                calls.append((row[1], asked))
                asked = 0
        generating = [
            count for (phase, _), (_, count) in zip(calls, calls[1:]) if phase == "phase:generating"
        ]
        # The first brings what is made once; those that are written are the same as those that are run.
        self.assertEqual(len(set(generating[1:6])), 1, generating)
