"""Replay as on the CPU, and as where the host must not ask which rows are stored."""

import pytest


@pytest.fixture
def never_ask(monkeypatch):
    """As on a GPU."""
    monkeypatch.setattr("marinenav_env.runtime.host_reads.FREE_HOST_READ_DEVICES", frozenset())


@pytest.fixture(params=["asked", "not asked"])
def either_way(request):
    """As on the CPU and as on a GPU."""
    if request.param == "not asked":
        request.getfixturevalue("never_ask")
