"""The script that counts kernels of a GPU that is not there."""

import re

import pytest
import torch
import torch._inductor.config

from tests.train_RL_agents.fake_gpu import GPU, fake_gpu
from tools.count_kernels import count_launches, count_parts, register_usage


def test_what_generated_code_starts_is_counted():
    code = """
def triton_poi_fused_0(in_ptr0): pass
def call(args):
    triton_poi_fused_0.run(arg0, 256, stream=stream0)
    extern_kernels.addmm(bias, arg0, arg1, out=buf0)
    buf1 = torch.ops.aten.cumsum.default(buf0, 0)
    buf0.copy_(buf1)
    return (buf0,)
"""
    assert count_launches(code) == {"generated": 1, "library": 1, "operators": 2}


def test_operators_over_lists_start_a_kernel_for_so_many_tensors():
    started = []
    with fake_gpu() as mode:
        tensors = [torch.zeros(2, device=GPU) for _ in range(70)]
        with mode.counting(started):
            torch._foreach_add_(tensors, 1.0)
            torch._foreach_add(tensors, tensors)
    assert started == ["_foreach_add_.Scalar", "_foreach_add.List", "_foreach_add.List"]


@pytest.mark.slow
def test_with_the_worlds_kernel_a_step_has_fewer():
    """Policy, noise and insertion, besides the kernel."""
    pytest.importorskip("triton")
    found, _ = count_parts("AC-IQN", ["execution.kernel=triton"], ["vector step"])
    assert found["vector step"].total() <= 26


@pytest.mark.slow
def test_kernels_of_ac_iqn_stay_few():
    found, compiler = count_parts("AC-IQN", ["trainer.batch_size=256"], ["vector step", "update"])
    assert found["vector step"].total() <= 45
    assert found["update"].total() <= 110
    half, _ = count_parts("AC-IQN", ["trainer.batch_size=256", "trainer.precision=bf16"], ["update"])
    # Before that option, inductor combined at most 8 parts.
    combined = hasattr(torch._inductor.config, "combo_kernel_max_num_nodes")
    assert half["update"].total() <= found["update"].total() + (5 if combined else 7)
    code = dict(compiler.code)["GraphCollector._step"]
    assert "-766435501, tl.int64" in code  # of Philox
    assert not re.search(r"\(-\d{7,}\)\*", code), "a product that does not fit into an index"
    code = dict(compiler.code)["OffPolicy._store_transitions"]
    found_in = dict(register_usage(code))
    assert any("_red_" in kernel for kernel in found_in)
    for kernel, used in found_in.items():
        assert used["REG"] > 8, kernel
        assert used["SPILL"] == 0, kernel
