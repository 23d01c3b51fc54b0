"""Checkpoints: whole or not there, the last two kept, and a killed training that ends bit-equal."""

import json
import os
import random
import sys
import tempfile
import unittest

import torch
import warm
from torch import nn

import plimsoll

FOLDER = os.path.dirname(os.path.abspath(__file__))
PACKAGE = os.path.dirname(os.path.dirname(FOLDER))


def made(folder, **options):
    torch.manual_seed(0)
    model = nn.Linear(4, 2)
    optimizer = torch.optim.AdamW(model.parameters())
    return model, plimsoll.checkpointing(folder, model, optimizer, **{"every": 1, **options})


def files(folder):
    return sorted(name for name in os.listdir(folder) if name.endswith(".pt"))


class Checkpoints(unittest.TestCase):
    def setUp(self):
        found = tempfile.TemporaryDirectory()
        self.addCleanup(found.cleanup)
        self.folder = os.path.join(found.name, "checkpoints")

    def test_a_training_killed_at_random_moments_ends_bit_equal(self):
        program = os.path.join(FOLDER, "killed_training.py")
        done = warm.run(
            [sys.executable, "-W", "ignore", program, PACKAGE, self.folder, "12", "7"],
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        told = json.loads(done.stdout)
        self.assertTrue(told["same"], told)
        self.assertGreater(told["killed"], 2)
        self.assertGreater(told["stood"], told["killed"] // 2)
        self.assertLessEqual(told["files"], 2)

    def test_the_last_two_are_kept_and_the_newest_is_taken_up(self):
        model, saved = made(self.folder)
        with saved:
            for _ in range(5):
                with torch.no_grad():
                    model.weight += 1
                saved.step()
        self.assertEqual([name[:23] for name in files(self.folder)], [
            "checkpoint-000000000004", "checkpoint-000000000005",
        ])  # fmt: skip
        wanted = model.weight.clone()
        again, saved = made(self.folder)
        with saved:
            self.assertTrue(saved.resumed)
            self.assertEqual(saved.steps, 5)
            self.assertTrue(torch.equal(again.weight, wanted))

    def test_a_damaged_file_is_passed_over_and_a_damaged_folder_is_one_clear_error(self):
        _, saved = made(self.folder)
        with saved:
            saved.step()
            saved.step()
        draw = random.Random(3)
        newest, oldest = files(self.folder)[1], files(self.folder)[0]
        for name, steps in ((newest, 1), (oldest, None)):
            path = os.path.join(self.folder, name)
            with open(path, "r+b") as file:
                size = os.path.getsize(path)
                file.seek(draw.randrange(size))
                at = file.tell()
                byte = file.read(1)
                file.seek(at)
                file.write(bytes([byte[0] ^ 0x55]))
            if steps is None:
                with self.assertRaises(plimsoll.Failure) as caught:
                    made(self.folder)
                self.assertEqual(caught.exception.code, "checkpoints-damaged")
            else:
                _, saved = made(self.folder)
                with saved:
                    self.assertEqual(saved.steps, steps)

    def test_a_second_process_a_wrong_model_and_wrong_arguments_are_refused(self):
        model, saved = made(self.folder)
        with saved:
            with self.assertRaises(plimsoll.Failure) as caught:
                made(self.folder)
            self.assertEqual(caught.exception.code, "checkpoints-in-use")
            saved.save()
        other = nn.Linear(3, 3)
        for optimizer in (None, torch.optim.AdamW(other.parameters())):
            with self.assertRaises(plimsoll.Failure) as caught:
                plimsoll.checkpointing(self.folder, other, optimizer)
            self.assertEqual(caught.exception.code, "checkpoint-unusable")
        # What was refused left the folder free.
        made(self.folder)[1].close()
        for options in ({"every": 0}, {"keep": 0}, {"seconds": -1}, {"also": {"x": 7}}):
            with self.assertRaises(plimsoll.Failure):
                plimsoll.checkpointing(self.folder, model, **options)
        with self.assertRaises(plimsoll.Failure) as caught:
            plimsoll.checkpointing("/dev/null/x", model)
        self.assertEqual(caught.exception.code, "checkpoints-unwritable")

    def test_a_pass_over_other_data_is_refused(self):
        _, saved = made(self.folder)
        with saved:
            for _ in saved.epochs(1):
                for index, _ in enumerate(saved.batches(range(5))):
                    if index == 3:
                        break
        _, saved = made(self.folder)
        with saved, self.assertRaises(plimsoll.Failure) as caught:
            for _ in saved.epochs(1):
                list(saved.batches(range(2)))
        self.assertEqual(caught.exception.code, "position-of-another-dataset")


if __name__ == "__main__":
    unittest.main()
