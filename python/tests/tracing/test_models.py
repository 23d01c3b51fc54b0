"""Models of transformers: the class a config stands for, its type, its batch and its loss."""

import argparse
import json
import os
import tempfile
import unittest

import torch
import transformers

from tracing import watching

from plimsoll.failure import Failure
from plimsoll_trace import quantized
from plimsoll_trace.options import parse
from plimsoll_trace.quantized import eight_bits, four_bits
from plimsoll_trace.record import record
from plimsoll_trace.sources import hugging_face
from plimsoll_trace.sources.batches import batch_for, target_notes
from plimsoll_trace.sources.vision import full_name
from plimsoll_trace.workload import Settings

SMALL = {
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "vocab_size": 100,
}
# The classes that are usually trained, as the formulas take them too.
USUAL = {
    "llama": "LlamaForCausalLM",
    "gpt2": "GPT2LMHeadModel",
    "gemma3_text": "Gemma3ForCausalLM",
    "gemma3": "Gemma3ForConditionalGeneration",
    "bert": "BertForMaskedLM",
    "roberta": "RobertaForMaskedLM",
    "distilbert": "DistilBertForMaskedLM",
    "t5": "T5ForConditionalGeneration",
    "bart": "BartForConditionalGeneration",
    "vit": "ViTForImageClassification",
    "swin": "SwinForImageClassification",
    "convnext": "ConvNextForImageClassification",
    "whisper": "WhisperForConditionalGeneration",
    "wav2vec2": "Wav2Vec2ForCTC",
    "clip": "CLIPModel",
}


def built(architecture, kind="bert", more=None, **values):
    config = {"model_type": kind, "architectures": [architecture], **SMALL, **(more or {})}
    return hugging_face.build(config, settings(**values))


class Classes(unittest.TestCase):
    def test_a_config_without_a_class_stands_for_the_one_usually_trained(self):
        for kind, name in USUAL.items():
            with self.subTest(kind):
                config = transformers.AutoConfig.for_model(kind)
                found, notes = hugging_face.choose(transformers, config, {})
                self.assertEqual(found.__name__, name)
                self.assertIn(name, notes[0])

    def test_a_class_that_is_named_is_taken(self):
        config = transformers.AutoConfig.for_model("bert")
        named = {"architectures": ["NoSuchModel", "BertForTokenClassification"]}
        found, notes = hugging_face.choose(transformers, config, named)
        self.assertEqual((found.__name__, notes), ("BertForTokenClassification", []))


class Builds(unittest.TestCase):
    def test_the_precision_asked_for_counts_and_not_the_configs(self):
        with watching.watched():
            model, _ = built("BertForMaskedLM", more={"torch_dtype": "float16"}, precision="fp32")
        self.assertEqual({p.dtype for p in model.parameters()}, {torch.float32})

    def test_quantization_of_the_config_is_left_out_and_told(self):
        with watching.watched():
            _, notes = built(
                "BertForMaskedLM", more={"quantization_config": {"quant_method": "awq"}}
            )
        self.assertIn("quantization", notes[0])

    def test_a_model_without_a_head_has_nothing_to_train(self):
        with watching.watched(), self.assertRaises(Failure) as caught:
            model, _ = built("BertModel")
            hugging_face.usual_forward(settings())(model, batch_for(model, settings()))
        self.assertEqual(caught.exception.code, "no-loss")

    def test_each_head_gets_its_labels(self):
        shapes = {
            "BertForMaskedLM": {"labels": (3, 8)},
            "BertForSequenceClassification": {"labels": (3,)},
            "BertForTokenClassification": {"labels": (3, 8)},
            "BertForQuestionAnswering": {"start_positions": (3,), "end_positions": (3,)},
            "BertForMultipleChoice": {"labels": (3,)},
            "BertForPreTraining": {"labels": (3, 8), "next_sentence_label": (3,)},
        }
        for name, wanted in shapes.items():
            with self.subTest(name), watching.watched():
                model, _ = built(name)
                batch = batch_for(model, settings(batch=3))
                given = {k: tuple(v.shape) for k, v in batch.items() if k != "input_ids"}
                self.assertEqual(given, wanted)
                self.assertEqual(hugging_face.usual_forward(settings())(model, batch).numel(), 1)

    def test_classifiers_of_language_models_get_a_padding_token(self):
        with watching.watched():
            model, _ = built("LlamaForSequenceClassification", "llama")
            batch = batch_for(model, settings(batch=3))
            self.assertEqual(model(**batch).loss.numel(), 1)

    def test_transcripts_are_learned_too(self):
        small = {"conv_dim": [32] * 7, "num_feat_extract_layers": 7, "num_conv_pos_embeddings": 16}
        with watching.watched():
            model, _ = built(
                "Wav2Vec2ForCTC", "wav2vec2", {**small, "num_conv_pos_embedding_groups": 2}
            )
            self.assertEqual({p.device.type for p in model.parameters()}, {"meta"})
            loss = hugging_face.usual_forward(settings())(
                model, batch_for(model, settings(seq=16000))
            )
            loss.backward()
            self.assertIsNotNone(model.lm_head.weight.grad)

    def test_a_decoder_beside_an_encoder_of_sound_gets_the_transcript(self):
        layers = {f"{part}_num_hidden_layers": 1 for part in ("encoder", "decoder")}
        with watching.watched():
            model, _ = built("MoonshineForConditionalGeneration", "moonshine", layers)
            for asked, tokens in ((0, 16), (5, 5)):
                wanted = settings(batch=3, seq=16000, target_seq=asked)
                batch = batch_for(model, wanted)
                self.assertEqual(batch["labels"].shape, (3, tokens))
                self.assertEqual(hugging_face.usual_forward(wanted)(model, batch).numel(), 1)
                notes = target_notes(model, wanted)
                self.assertEqual([("samples" in note) for note in notes], [] if asked else [True])


class Vision(unittest.TestCase):
    known = ("resnet50", "mobilenet_v3_large", "mobilenet_v3_small", "efficientnet_b4")

    def test_names_are_found_however_they_are_joined(self):
        for name, wanted in {
            "ResNet-50": "resnet50",
            "efficientnet-b4": "efficientnet_b4",
            "mobilenet_v3": "mobilenet_v3_large",
        }.items():
            self.assertEqual(full_name(name, self.known), wanted)

    def test_a_name_that_there_is_counts_as_it_is_written(self):
        known = ["regnet_y_16gf", "regnet_y_1_6gf"]
        for name in known:
            self.assertEqual(full_name(name, known), name)

    def test_near_names_are_suggested(self):
        with self.assertRaises(Failure) as caught:
            full_name("resnet51", self.known)
        self.assertIn("resnet50", caught.exception.next_step)


# Layers in 8 and 4 bits: what their weights take, and what exists only while they run.

CONFIG = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "vocab_size": 1000,
    "tie_word_embeddings": False,
}
LINEAR = 2 * (4 * 256 * 256 + 3 * 256 * 512)


def settings(**values):
    usual = {
        "mode": "train",
        "batch": 1,
        "seq": 8,
        "image": 0,
        "precision": "bf16",
        "optimizer": "adamw",
        "checkpointing": False,
        "lora": 0,
        "steps": 1,
    }
    return Settings(**{**usual, **values})


def layer():
    with torch.device("meta"):
        return torch.nn.Linear(256, 512, bias=False, dtype=torch.bfloat16)


def kept(module):
    return sorted(t.numel() * t.element_size() for t in [*module.parameters(), *module.buffers()])


class Layers(unittest.TestCase):
    def test_four_bits_take_half_a_byte_and_a_scale_for_each_64(self):
        self.assertEqual(
            kept(four_bits(layer(), torch.bfloat16, False)), sorted([65536, 2048 * 4, 16 * 4])
        )

    def test_scales_can_be_packed_themselves(self):
        sizes = kept(four_bits(layer(), torch.bfloat16, True))
        self.assertEqual(sizes, sorted([65536, 2048, 8 * 4, 16 * 4, 256 * 4, 4]))

    def test_eight_bits_keep_a_scale_for_each_row(self):
        self.assertEqual(kept(eight_bits(layer())), sorted([131072, 512 * 4]))

    def test_the_whole_weight_exists_while_it_is_multiplied(self):
        with watching.watched() as observer:
            four = four_bits(layer(), torch.bfloat16, False)
            x = torch.empty(8, 256, dtype=torch.bfloat16, device="meta", requires_grad=True)
            asked = watching.Asked(observer)
            with torch.no_grad():
                four(x)
            self.assertEqual(asked.sizes(), [512 * 256 * 2, 8 * 512 * 2])
            out = four(x)
            asked.sizes()
            grad = torch.empty_like(out)
            asked.sizes()
            out.backward(grad)
            self.assertEqual(max(asked.sizes()), 512 * 256 * 2)


class Models(unittest.TestCase):
    def trace(self, **values):
        usual = {
            **vars(parse(["--script=none"])),
            "script": None,
            "batch": 2,
            "seq": 16,
            "precision": "bf16",
            "optimizer": "adamw",
            "steps": 1,
        }
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "config.json")
            with open(path, "w", encoding="utf-8") as file:
                json.dump(CONFIG, file)
            return record(argparse.Namespace(**{**usual, **values, "config": path}))

    def weights(self, recording):
        return sum(e[2] for e in recording.ledger.events if e[0] == "a" and e[5] == "w")

    def test_linear_layers_shrink_and_the_rest_stays(self):
        rest = 2 * 1000 * 256 + 5 * 256
        recording = self.trace(mode="infer", quantization="int4")
        self.assertEqual(recording.parameters, LINEAR + rest)
        loaded = [e for e in recording.ledger.events if e[0] == "a" and e[5] == "w"]
        self.assertLess(abs(sum(e[2] for e in loaded) - (LINEAR * 0.5625 + rest * 2)), 4096)
        self.assertTrue(any("not measured" in note for note in recording.notes))

    def test_building_never_holds_the_model_whole(self):
        live = most = 0
        sizes = {}
        for event in self.trace(mode="infer", quantization="int8").ledger.events:
            if event[:2] == ("m", "ready"):
                break
            if event[0] == "a":
                sizes[event[1]] = event[2]
                live += event[2]
                most = max(most, live)
            elif event[0] == "f":
                live -= sizes[event[1]]
        self.assertLess(most, 1.6 * LINEAR + 4 * 1000 * 256)

    def test_adapters_learn_beside_packed_weights(self):
        recording = self.trace(quantization="int4_double", lora=4)
        learned = sum(e[2] for e in recording.ledger.events if e[0] == "a" and e[5] == "g")
        layers = 2 * (4 * (256 + 256) + 3 * (256 + 512)) * 4
        self.assertEqual(learned, layers * 4)

    def test_what_cannot_be_is_told(self):
        cases = {
            "quantized-not-trained": {"quantization": "int8"},
            "quantization-by-memory": {"quantization": "int4_offload", "mode": "infer"},
            "quantization-on-host": {"quantization": "cpu"},
        }
        for code, values in cases.items():
            with self.subTest(code), self.assertRaises(Failure) as caught:
                quantized.check(settings(**values), "config.json")
            self.assertEqual(caught.exception.code, code)
        with self.assertRaises(Failure):
            quantized.check(settings(quantization="int4", mode="infer"), None)


if __name__ == "__main__":
    unittest.main()
