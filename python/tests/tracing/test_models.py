"""Models of transformers: the class a config stands for, its type, its batch and its loss."""

import unittest

import torch
import transformers

from tracing import watching
from tracing.test_quantized import settings

from plimsoll.failure import Failure
from plimsoll.tracing.sources import hugging_face
from plimsoll.tracing.sources.batches import batch_for, target_notes
from plimsoll.tracing.sources.vision import full_name

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
            hugging_face._forward(settings())(model, batch_for(model, settings()))
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
                self.assertEqual(hugging_face._forward(settings())(model, batch).numel(), 1)

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
            loss = hugging_face._forward(settings())(model, batch_for(model, settings(seq=16000)))
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
                self.assertEqual(hugging_face._forward(wanted)(model, batch).numel(), 1)
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
