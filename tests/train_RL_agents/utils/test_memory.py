"""Free memory."""

import psutil
import pytest

from train_RL_agents.utils.memory import free_host_memory


def test_the_limit_of_a_container_counts(tmp_path):
    free = free_host_memory(tmp_path)
    assert 0 < free <= psutil.virtual_memory().total
    (tmp_path / "memory.current").write_text("400\n")
    # Of which 100 are pages of files that can go.
    (tmp_path / "memory.stat").write_text("anon 300\ninactive_file 100\n")
    for limit, expected in (("max\n", free), ("1000\n", 700)):
        (tmp_path / "memory.max").write_text(limit)
        assert free_host_memory(tmp_path) == pytest.approx(expected, rel=0.2)
    old = tmp_path / "memory"  # version 1 of control groups
    old.mkdir()
    (old / "memory.usage_in_bytes").write_text("400\n")
    (old / "memory.stat").write_text("total_inactive_file 0\n")
    (old / "memory.limit_in_bytes").write_text("500\n")
    assert free_host_memory(tmp_path) == 100
