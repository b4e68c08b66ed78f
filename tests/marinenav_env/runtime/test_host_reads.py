"""Host reads synchronise with every device but the CPU."""

import torch

from marinenav_env.runtime.host_reads import host_reads_are_free


def test_host_reads_are_free_on_the_cpu_alone() -> None:
    free = [host_reads_are_free(torch.device(name)) for name in ("cpu", "cuda:1", "mps", "meta")]
    assert free == [True, False, False, False]
