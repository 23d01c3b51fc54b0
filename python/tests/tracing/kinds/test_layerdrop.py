"""Layers that are left out at random: wherever models keep their chance, a trace is not a matter of luck."""

import unittest

import torch
import transformers

from tracing.kinds.traced_program import rows_of
from tracing.watching import watched

# Left out for sure, unless the trace says otherwise.
SURELY = 1.0
LAYERS = 3
TEXT = {"d_model": 32, "encoder_layers": LAYERS, "decoder_layers": LAYERS, "vocab_size": 100}
HEADS = {"encoder_attention_heads": 2, "decoder_attention_heads": 2}
SPEECH = {
    "hidden_size": 32,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "conv_dim": [32] * 7,
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 2,
}
SEAMLESS = {
    "hidden_size": 32,
    "feature_projection_input_dim": 32,
    "speech_encoder_layers": LAYERS,
    "speech_encoder_attention_heads": 2,
    "speech_encoder_intermediate_size": 64,
}


def words(model):
    return model(input_ids=torch.zeros(2, 8, dtype=torch.long, device="meta"))


def sound(model):
    return model(torch.zeros(2, 16000, device="meta"))


def frames(model):
    return model.speech_encoder(torch.zeros(2, 16, 32, device="meta"))


# By model: its config, where the chance stands in it, what is run, and the layers of that.
MODELS = {
    "OPTModel": (
        {
            "hidden_size": 32,
            "num_hidden_layers": LAYERS,
            "num_attention_heads": 2,
            "ffn_dim": 64,
            "vocab_size": 100,
            "word_embed_proj_dim": 32,
        },
        ["layerdrop"],
        words,
        "decoder.layers",
    ),
    "BartModel": (
        {**TEXT, **HEADS, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64},
        ["encoder_layerdrop", "decoder_layerdrop"],
        words,
        "encoder.layers",
    ),
    "HubertModel": (SPEECH, ["layerdrop"], sound, "encoder.layers"),
    "SeamlessM4TModel": (
        SEAMLESS,
        ["speech_encoder_layerdrop"],
        frames,
        "speech_encoder.encoder.layers",
    ),
}


def run(name, chance, training):
    """The observer, and how many layers of the model were run in one pass."""
    values, names, forward, layers = MODELS[name]
    kind = getattr(transformers, name)
    config = kind.config_class(**values, **dict.fromkeys(names, chance))
    seen = []
    with watched() as observer:
        with torch.device("meta"):
            model = kind._from_config(config)
        model.train(training)
        for layer in model.get_submodule(layers):
            layer.register_forward_hook(lambda *_: seen.append(1))
        forward(model)
    return observer, len(seen)


class Layerdrop(unittest.TestCase):
    def test_all_layers_are_run_and_it_is_told(self):
        for name in MODELS:
            with self.subTest(name):
                observer, layers = run(name, SURELY, training=True)
                self.assertEqual(layers, LAYERS)
                self.assertTrue(observer.skips_layers)
                self.assertTrue(any("layerdrop" in note for note in observer.notes))

    def test_nothing_is_told_where_none_is_left_out(self):
        for name, chance, training in (("HubertModel", 0.0, True), ("HubertModel", SURELY, False)):
            with self.subTest(chance=chance, training=training):
                observer, layers = run(name, chance, training)
                self.assertEqual(layers, LAYERS)
                self.assertFalse(observer.skips_layers)
                self.assertEqual(observer.notes, set())

    def test_other_single_numbers_are_drawn(self):
        torch.manual_seed(3)
        expected = torch.rand([])
        torch.manual_seed(3)
        with watched() as observer:
            self.assertEqual(torch.rand([]), expected)
        self.assertFalse(observer.skips_layers)

    def test_a_program_leaves_out_what_its_own_seed_says(self):
        end = rows_of(self, PROGRAM)[-1]
        self.assertTrue(end["skipsLayers"])
        self.assertTrue(any("another seed" in note for note in end["notes"]), end["notes"])


PROGRAM = """
import torch, transformers
torch.manual_seed(0)
config = transformers.OPTConfig(hidden_size=32, num_hidden_layers=4, num_attention_heads=2, ffn_dim=64,
                                vocab_size=100, word_embed_proj_dim=32, layerdrop=0.5)
model = transformers.OPTForCausalLM(config).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(3):
    ids = torch.randint(0, 100, (2, 16), device="cuda")
    model(input_ids=ids, labels=ids).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""


if __name__ == "__main__":
    unittest.main()
