"""What a loop keeps between steps, and how long the labels are."""

import json
import os

from tracing.test_command import Scripts, run

GPT2 = {"model_type": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": 32, "vocab_size": 512}
T5 = {
    "model_type": "t5",
    "architectures": ["T5ForConditionalGeneration"],
    "d_model": 32,
    "d_ff": 64,
    "d_kv": 16,
    "num_heads": 2,
    "num_layers": 1,
    "decoder_start_token_id": 0,
    "vocab_size": 512,
}


class Assumed(Scripts):
    def config(self, values):
        path = os.path.join(self.folder.name, "config.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(values, file)
        return path

    def traced(self, values, *more):
        return run(
            "--config", self.config(values), "--batch", "2", "--seq", "16", "--steps", "2", *more
        )

    def live_in_backward(self, *more):
        """Sizes that forward asked for and that are still there when the optimizer begins."""
        status, lines = self.traced(GPT2, *more)
        self.assertEqual(status, 0, lines[-1])
        phase, live = "", {}
        for event in lines[1:-1]:
            if event[0] == "m":
                phase = event[1]
                if phase == "step:2:optimizer":
                    return sorted(live.values())
            elif event[0] == "a" and phase == "step:2:forward":
                live[event[1]] = event[2]
            elif event[0] == "f":
                live.pop(event[1], None)
        return self.fail("there was no second step")

    def test_outputs_live_until_the_next_step_where_the_loop_keeps_them(self):
        logits = 2 * 16 * 512 * 4
        self.assertNotIn(logits, self.live_in_backward())
        self.assertNotIn(logits, self.live_in_backward("--keep", "loss"))
        self.assertIn(logits, self.live_in_backward("--keep", "outputs"))

    def test_labels_have_the_length_that_is_said(self):
        for more, length, said in ((), 8, 1), (("--target-seq", "16"), 16, 0):
            with self.subTest(more):
                status, lines = self.traced(T5, *more)
                self.assertEqual(status, 0, lines[-1])
                sizes = [e[2] for e in lines[1:-1] if e[0] == "a"]
                self.assertIn(2 * length * 512 * 4, sizes)
                notes = [note for note in lines[-1]["notes"] if "labels are taken" in note]
                self.assertEqual(len(notes), said)

    def test_a_length_that_no_labels_have_is_refused(self):
        status, [line] = self.traced(GPT2, "--target-seq", "16")
        self.assertEqual((status, line["error"]["code"]), (2, "no-target"))
