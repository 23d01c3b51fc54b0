"""One rank of many: the model is sharded by PyTorch's own code, and the other ranks are pretended."""
