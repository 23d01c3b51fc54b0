"""Presets are chosen as `plimsoll plan` chooses them (src/plan/quantization/preset-rules.test.ts)."""

import json
import os
import unittest

from sdk import PACKAGE

from plimsoll.loading.presets import PRESETS, WORKING_SHARE, most_precise, weight_bytes

with open(
    os.path.join(PACKAGE, os.pardir, "test", "fixtures", "preset-rules.json"), encoding="utf-8"
) as file:
    RULES = json.load(file)


class Presets(unittest.TestCase):
    def test_the_same_is_chosen_as_in_typescript(self):
        self.assertEqual(WORKING_SHARE, RULES["workingShare"])
        for case in RULES["choices"]:
            with self.subTest(**case):
                self.assertEqual(
                    most_precise(case["parameters"], case["freeBytes"]), case["preset"]
                )

    def test_weights_take_the_same_bytes_as_in_typescript(self):
        self.assertEqual({case["preset"] for case in RULES["weights"]}, set(PRESETS))
        for case in RULES["weights"]:
            with self.subTest(**case):
                self.assertEqual(weight_bytes(case["preset"], case["parameters"]), case["bytes"])
