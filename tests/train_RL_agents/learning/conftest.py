"""Replay as on the CPU, and as where the host must not ask which rows are stored."""

import pytest


@pytest.fixture(params=["asked", "not asked"])
def either_way(request):
    """As on the CPU and as on a GPU."""
    if request.param == "not asked":
        request.getfixturevalue("reads_cost_time")
