"""Measure memory of real PyTorch training steps without a GPU; needs the extra ``oracle``."""
