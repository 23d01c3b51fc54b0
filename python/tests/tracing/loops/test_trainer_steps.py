"""Steps of transformers' Trainer that a program's own callbacks wait for."""

import unittest

from tracing.kinds.traced_program import rows_of

from plimsoll.tracing.programs.libraries import SeenStep
from plimsoll.tracing.programs.loops.batch_loops import Number

THAWED = """
import torch
from torch import nn
from transformers import Trainer, TrainerCallback, TrainingArguments

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(64, 64), nn.Linear(64, 1)
        self.body.requires_grad_(False)

    def forward(self, x):
        return {"loss": self.head(self.body(x)).mean()}

class Thaw(TrainerCallback):
    thawed, seen, evaluated = None, [], []

    def on_step_begin(self, args, state, control, model=None, **kwargs):
        self.seen.append(int(state.global_step))
        if state.global_step == 25:
            self.thawed = int(state.global_step)
            model.body.requires_grad_(True)

    def on_evaluate(self, args, state, control, **kwargs):
        self.evaluated.append(int(state.global_step))

rows = [{"x": torch.randn(64)} for _ in range(400)]
callback = Thaw()
trainer = Trainer(
    Model(),
    TrainingArguments(
        "out", max_steps=50, per_device_train_batch_size=8, eval_strategy="steps", eval_steps=30,
        save_strategy="no", report_to="none", label_names=[], remove_unused_columns=False,
    ),
    train_dataset=rows,
    eval_dataset=rows[:16],
    callbacks=[callback],
)
trainer.train()
assert callback.thawed == 25, callback.seen
assert len(callback.seen) < 30, callback.seen
# Not before, as no evaluation comes before it in a real run.
assert callback.evaluated[0] == 30, callback.evaluated
assert trainer.model.body.weight.grad is not None or trainer.state.global_step > 25
"""

PLAIN = (
    THAWED.replace("if state.global_step == 25:", "if False:").split("assert callback.thawed")[0]
    + """
# Without a number that the program waits for, an evaluation comes early, and no step is led on.
assert callback.evaluated[0] == 3, callback.evaluated
assert callback.seen == list(range(len(callback.seen))), callback.seen
"""
)

# What the allocator holds at an evaluation depends on all batches before it.
OF_DIFFERENT_LENGTHS = (
    PLAIN.split("# Without a number")[0]
    .replace("torch.randn(64)", "torch.randn(i % 37 + 3, 64)")
    .replace("for _ in range(400)", "for i in range(400)")
    .replace(
        "callbacks=[callback],",
        "callbacks=[callback], data_collator=lambda rows: "
        "{'x': nn.utils.rnn.pad_sequence([row['x'] for row in rows[::3]])},",
    )
    + "assert callback.evaluated[0] == 30, callback.evaluated\n"
)


class TrainerSteps(unittest.TestCase):
    def ends_well(self, text):
        # Where batches were left out, an error of the program is a note.
        notes = rows_of(self, text)[-1]["notes"]
        self.assertEqual([note for note in notes if "ended with" in note], [])

    def test_a_callback_that_waits_for_a_step_gets_it(self):
        self.ends_well(THAWED)

    def test_steps_that_nothing_waits_for_are_left_out(self):
        self.ends_well(PLAIN)

    def test_evaluations_of_batches_that_differ_come_when_they_would(self):
        self.ends_well(OF_DIFFERENT_LENGTHS)

    def test_a_number_tells_what_it_is_held_against(self):
        for look in (
            lambda step: step == 25,
            lambda step: step != 25,
            lambda step: step >= 25,
            lambda step: step + 1 > 26,
            lambda step: step < 25,
            lambda step: step <= 25,
            lambda step: step % 25 == 0,
        ):
            number = Number()
            number.begins_turn(1, 3)
            number.ends_turn()
            number.begins_turn(2, 4)
            look(SeenStep(4).of(number))
            self.assertTrue(number.is_held_against())
            self.assertIn(number.turns_ahead()[0], (19, 20))
        self.assertEqual({SeenStep(4): "a"}[4], "a")


if __name__ == "__main__":
    unittest.main()
