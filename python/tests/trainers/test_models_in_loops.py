"""Models of transformers in a loop of the program's own: forwards that run out of memory are made again."""

import logging
import unittest

import torch
from transformers import modeling_utils

from sdk.injection import out_of_memory
from trainers.small_trainer import bert, gpt2
from trainers.unchanged import run_unchanged

from plimsoll.bridge import phase
from plimsoll.optimizing import in_loops

PROGRAM = "plain_gpt2.py"
# More than its weights, gradients and states need, and less than the activations of one forward.
ROOM = 300 * 10**6


class InLoops(unittest.TestCase):
    def setUp(self):
        logging.getLogger("plimsoll").setLevel(logging.CRITICAL)
        self.addCleanup(logging.getLogger("plimsoll").setLevel, logging.NOTSET)
        phase.enter(phase.IDLE)
        kind = modeling_utils.PreTrainedModel
        before = kind.__dict__.get("__call__")
        in_loops.install(modeling_utils)
        self.addCleanup(
            lambda: (setattr(kind, "__call__", before) if before else delattr(kind, "__call__"))
        )

    def trained(self, made, fails):
        """The loss and gradients of one batch; calls of the last layer fail where `fails` says so."""
        torch.manual_seed(1)
        model = made(0.1).train()
        calls = []

        def failing(*_):
            calls.append(model.is_gradient_checkpointing)
            if fails(len(calls), model):
                raise out_of_memory()

        is_gpt2 = hasattr(model, "transformer")
        layers = model.transformer.h if is_gpt2 else model.bert.encoder.layer
        layers[-1].register_forward_pre_hook(failing)
        ids = torch.randint(3, 40, (4, 12), generator=torch.Generator().manual_seed(0))
        labels = ids if is_gpt2 else ids[:, 0] % 3
        torch.manual_seed(2)
        loss = model(input_ids=ids, labels=labels).loss
        loss.backward()
        return float(loss), [p.grad for p in model.parameters()], calls, model

    def test_caches_first_then_checkpointing_and_exactly_the_same_with_dropout(self):
        for made in (gpt2, bert):
            loss, gradients, _, _ = self.trained(made, lambda *_: False)
            for fails in (lambda n, _: n == 1, lambda n, m: not m.is_gradient_checkpointing):
                again, mine, calls, _ = self.trained(made, fails)
                self.assertEqual(again, loss)
                for one, other in zip(mine, gradients):
                    self.assertTrue(torch.equal(one, other))
            # The third call is with checkpointing; the one after it is of backward.
            self.assertEqual(calls, [False, False, True, True])

    def test_the_eager_kernel_gives_way_and_only_once_it_is_needed(self):
        for failures, kernel in ((1, "eager"), (2, "sdpa")):
            *_, model = self.trained(eager, lambda n, _, failures=failures: n <= failures)
            self.assertEqual(model.config._attn_implementation, kernel)

    def test_the_program_sees_its_own_error_where_nothing_helps(self):
        with self.assertRaises(torch.OutOfMemoryError):
            self.trained(gpt2, lambda *_: True)

    def test_calls_that_others_look_after_are_left_alone(self):
        def find_executable(function):
            names: dict = {"function": function}
            code = "def decorator():\n    return function()"
            exec(compile(code, "/x/accelerate/utils/memory.py", "exec"), names)
            return names["decorator"]()

        with self.assertRaises(torch.OutOfMemoryError):
            find_executable(lambda: self.trained(gpt2, lambda n, _: n == 1))
        phase.enter(phase.FORWARD)
        self.addCleanup(phase.enter, phase.IDLE)
        with self.assertRaises(torch.OutOfMemoryError):
            self.trained(gpt2, lambda n, _: n == 1)
        phase.enter(phase.IDLE)
        with torch.no_grad(), self.assertRaises(torch.OutOfMemoryError):
            self.trained(gpt2, lambda n, _: n == 1)

    def test_a_compiler_sees_the_model_in_one_graph(self):
        model = bert(0.0).train()
        ids = torch.arange(3, 15).reshape(1, 12)
        compiled = torch.compile(model, backend="eager", fullgraph=True)
        self.assertTrue(torch.equal(compiled(input_ids=ids).logits, model(input_ids=ids).logits))

    def test_an_unchanged_program_under_a_real_limit(self):
        code, whole, said = run_unchanged(PROGRAM)
        self.assertEqual(code, 0, said[-2000:])
        self.assertFalse(whole["checkpointing"])
        code, limited, said = run_unchanged(PROGRAM, 2**40, words=[str(ROOM)])
        self.assertEqual(code, 0, said[-2000:])
        self.assertEqual(limited, {"losses": whole["losses"], "checkpointing": True})
        self.assertIn("plimsoll: checkpointing: a forward ran out of memory again", said)
        off = {"PLIMSOLL_TRAINERS": "0"}
        code, _, said = run_unchanged(PROGRAM, 2**40, more=off, words=[str(ROOM)])
        self.assertNotEqual(code, 0)


def eager(dropout):
    model = gpt2(dropout)
    model.set_attn_implementation("eager")
    return model


if __name__ == "__main__":
    unittest.main()
