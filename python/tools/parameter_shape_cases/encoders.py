"""Text encoders, and encoders with a decoder."""

from __future__ import annotations

from .small import GENERIC_HEADS, SMALL, SMALL_T5

CASES = {
    "bert": [
        ({}, None),
        ({**SMALL, "max_position_embeddings": 100, "type_vocab_size": 3}, None),
        ({**SMALL, "tie_word_embeddings": False}, None),
        ({**SMALL, "is_decoder": True, "add_cross_attention": True}, "BertLMHeadModel"),
        *[
            ({**SMALL, "num_labels": 5}, "Bert" + kind)
            for kind in (
                *GENERIC_HEADS,
                "ForPreTraining",
                "ForNextSentencePrediction",
                "ForMultipleChoice",
            )
        ],
    ],
    "roberta": [
        ({}, None),
        ({**SMALL, "max_position_embeddings": 102, "type_vocab_size": 1}, None),
        ({**SMALL, "tie_word_embeddings": False}, None),
        ({**SMALL, "is_decoder": True}, "RobertaForCausalLM"),
        *[
            ({**SMALL, "num_labels": 5}, "Roberta" + kind)
            for kind in (*GENERIC_HEADS, "ForMultipleChoice")
        ],
    ],
    "distilbert": [
        ({}, None),
        (
            {
                "dim": 64,
                "hidden_dim": 160,
                "n_layers": 3,
                "n_heads": 4,
                "vocab_size": 320,
                "sinusoidal_pos_embds": True,
            },
            None,
        ),
        (
            {
                "hidden_size": 96,
                "num_hidden_layers": 2,
                "num_attention_heads": 3,
                "tie_word_embeddings": False,
            },
            None,
        ),
        ({"n_layers": 2}, "DistilBertForQuestionAnswering"),
        *[
            ({"n_layers": 2, "num_labels": 5}, "DistilBert" + kind)
            for kind in (*GENERIC_HEADS[:2], "Model", "ForMultipleChoice")
        ],
    ],
    "t5": [
        ({}, None),
        (SMALL_T5, None),
        (
            {
                **SMALL_T5,
                "feed_forward_proj": "gated-gelu",
                "num_decoder_layers": 2,
                "tie_word_embeddings": False,
            },
            None,
        ),
        ({**SMALL_T5, "is_gated_act": True, "dense_act_fn": "gelu"}, None),
        ({**SMALL_T5, "relative_attention_num_buckets": 16}, "T5EncoderModel"),
        (SMALL_T5, "T5Model"),
    ],
}
