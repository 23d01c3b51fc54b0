"""A trace puts back everything it replaced in PyTorch."""

import gc
import unittest
import weakref

import torch
import torch.nn.functional as F

from tracing.watching import watched


class NothingChanged(unittest.TestCase):
    def test_functions_and_classes_are_the_same_afterwards(self):
        def state():
            return (
                torch.tensor,
                torch.set_autocast_enabled,
                torch.clear_autocast_cache,
                torch.is_autocast_enabled,
                torch.nn.Module.__call__,
                torch.Tensor.__setitem__,
                torch.autocast.__init__,
                torch.nn.RNNBase.flatten_parameters,
                torch.utils.checkpoint._infer_device_type,
                torch.fx.experimental._config.meta_nonzero_assume_all_nonzero,
                torch.utils._foreach_utils._get_foreach_kernels_supported_devices,
            )

        before = state()
        with watched():
            self.assertNotEqual(state(), before)
        self.assertEqual(state(), before)

    def test_ops_on_meta_run_as_before(self):
        with watched():
            pass
        x = torch.empty(4, 4, device="meta", requires_grad=True)
        self.assertIn("Mul", F.dropout(x, 0.5, True).grad_fn.name())
        self.assertEqual((x @ x).dtype, torch.float32)

    def test_no_function_takes_the_number_of_one_that_torchscript_was_told_of(self):
        with watched():
            known = [weakref.ref(torch.tensor), weakref.ref(torch.as_tensor)]
        gc.collect()
        self.assertNotIn(None, [function() for function in known])

    def test_it_is_put_back_after_an_error_too(self):
        call = torch.nn.Module.__call__
        with self.assertRaises(ZeroDivisionError), watched():
            raise ZeroDivisionError
        self.assertIs(torch.nn.Module.__call__, call)
