"""Lightning, from outside: failures at chosen points, logged values, what is left alone."""

import gc
import logging
import os
import random
import unittest
import weakref

import torch

from trainers import small_lightning as small
from trainers.small_lightning import SAMPLES, Faults, Watched, plain_parts, seeded

TRIALS = int(os.environ.get("PLIMSOLL_TEST_TRAINER_INJECTIONS", "100"))
POINTS = ("forward", "backward", "step", "clip")


@unittest.skipIf(small.pl is None, f"{small.PACKAGE} is not installed")
class Lightning(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        small.install()

    @classmethod
    def tearDownClass(cls):
        logging.getLogger("plimsoll").setLevel(logging.NOTSET)

    def one(self, trial):
        draw = random.Random(trial)
        point, dropout = POINTS[trial % len(POINTS)], draw.choice([0.0, 0.2])
        clip = 0.5 if point == "clip" else draw.choice([None, 0.5])
        size, accumulate = draw.choice([(6, 2), (6, 1), (8, 3), (4, 2), (12, 1)])
        scaled = draw.random() < 0.3
        settings = {"accumulate_grad_batches": accumulate, "gradient_clip_val": clip}
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0) if scaled else None
        if scaled:
            # Half precision on the CPU is slow; the scaler is what is looked at.
            plugin = small.precision.MixedPrecision("16-mixed", "cpu", scaler)
            plugin.forward_context = torch.enable_grad
            settings["plugins"] = [plugin]
        first = draw.randint(1, 2)
        faults = Faults(point, [1] if point in ("step", "clip") else [first, first + 4])
        watched = Watched(dropout, trial, size, faults, **settings)
        torch.manual_seed(trial + 1)
        with faults.around():
            watched.fit()
        self.assertGreaterEqual(faults.raised, 1)
        parts = [sizes for window in watched.windows for sizes in window]
        self.assertEqual(
            sum(map(sum, parts)), SAMPLES, f"{point} {size} {settings} {watched.windows}"
        )
        rows = [row for batch in watched.module.seen for row in batch]
        self.assertEqual(rows, list(range(SAMPLES)), "each sample once, in order")
        again = torch.amp.GradScaler("cpu", init_scale=1024.0) if scaled else None
        twin = self.twin(watched, dropout, trial, size, clip, again)
        for (name, mine), theirs in zip(watched.module.named_parameters(), twin.parameters()):
            self.assertTrue(torch.equal(mine, theirs), f"{point} {size} {settings} {name}")
        return faults.raised

    def twin(self, watched, dropout, trial, size, clip, scaler):
        # Lightning draws nothing between the seed and the first step with a loader that does not shuffle,
        # but a loader draws its own seed once.
        real = small.seeded

        def reseeded(*arguments):
            module = real(*arguments)
            torch.manual_seed(trial + 1)
            return module

        small.seeded = reseeded
        try:
            return plain_parts(watched.windows, dropout, trial, size, clip, scaler)
        finally:
            small.seeded = real

    def test_all_are_recovered_bit_for_bit(self):
        self.assertGreaterEqual(sum(self.one(trial) for trial in range(TRIALS)), TRIALS)

    def test_no_batch_is_held_once_its_step_is_over(self):
        watched = Watched(0.0, 0, 2, None)
        real, seen, held = watched.module.training_step, [], []

        def training_step(batch, batch_idx):
            seen.append(weakref.ref(batch[0]))
            held.append(sum(one() is not None for one in seen))
            return real(batch, batch_idx)

        watched.module.training_step = training_step
        gc.disable()
        self.addCleanup(gc.enable)
        watched.fit()
        self.assertEqual(len(held), SAMPLES // 2)
        self.assertLessEqual(max(held), 2)

    def test_logged_means_count_each_sample_once(self):
        for point in ("forward", "backward"):
            faults = Faults(point, [2, 3])
            watched = Watched(0.0, 3, 6, faults, accumulate_grad_batches=2).fit()
            plain = Watched(0.0, 3, 6, None, accumulate_grad_batches=2).fit()
            self.assertEqual(faults.raised, 2)
            mine, theirs = (float(w.trainer.callback_metrics["loss"]) for w in (watched, plain))
            self.assertAlmostEqual(mine, theirs, places=5)

    def test_evaluation_is_split(self):
        faults = Faults("forward", [1, 2])
        watched = Watched(0.0, 3, 8, faults)
        mine = watched.trainer.validate(watched.module, small.loader(8), verbose=False)
        plain = Watched(0.0, 3, 8, None)
        theirs = plain.trainer.validate(plain.module, small.loader(8), verbose=False)
        self.assertEqual(faults.raised, 2)
        self.assertAlmostEqual(mine[0]["checked"], theirs[0]["checked"], places=5)

    def test_manual_optimization_is_left_alone_and_said_so(self):
        class Manual(small.module_class()):
            automatic_optimization = False

            def __init__(self):
                super().__init__(0.0)
                self.automatic_optimization = False

            def training_step(self, batch, batch_idx):
                optimizer = self.optimizers()
                optimizer.zero_grad()
                self.manual_backward(torch.nn.functional.cross_entropy(self(batch[0]), batch[1]))
                optimizer.step()

            def on_train_batch_end(self, *_):
                pass

        watched = Watched(0.0, 3, 8, None)
        watched.module = Manual()
        small.lightning._said.clear()
        logging.getLogger("plimsoll").setLevel(logging.NOTSET)
        with self.assertLogs("plimsoll", "WARNING") as said:
            watched.fit()
        logging.getLogger("plimsoll").setLevel(logging.CRITICAL)
        self.assertEqual(len(said.output), 1)
        self.assertIn("manual optimization", said.output[0])
        self.assertEqual(watched.windows, [])

    def test_the_batch_size_finder_is_left_alone(self):
        faults = Faults("forward", [1])
        module = seeded(0.0, 3, faults)
        module.batch_size = 8
        module.train_dataloader = lambda: small.loader(module.batch_size)
        module.val_dataloader = module.train_dataloader
        trainer = Watched(0.0, 3, 8, None).trainer
        tuner = __import__(f"{small.PACKAGE}.tuner", fromlist=["Tuner"]).Tuner(trainer)
        try:
            tuner.scale_batch_size(module, init_val=8, max_trials=1, steps_per_trial=1)
        except KeyError:
            # Lightning 2.4 fails where it puts its settings back; it has found its size by then.
            pass
        self.assertEqual(faults.raised, 1)
        self.assertEqual(module.batch_size, 4, "its own answer to the failure is half")

    def test_the_callback_puts_itself_in_place(self):
        import plimsoll

        faults = Faults("forward", [1])
        watched = Watched(0.0, 3, 8, faults, callbacks=[plimsoll.LightningCallback()]).fit()
        self.assertEqual(faults.raised, 1)
        self.assertEqual(sum(sum(map(sum, window)) for window in watched.windows), SAMPLES)

    def test_an_unknown_closure_is_left_alone(self):
        class Other:
            def _make_closure(self, kwargs, optimizer, batch_idx, more):
                raise NotImplementedError

        before = Other._make_closure
        small.lightning.install(type("module", (), {"_AutomaticOptimization": Other}))
        self.assertIs(Other._make_closure, before)


if __name__ == "__main__":
    unittest.main()
