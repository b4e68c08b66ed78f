"""Functions as generated code."""

import torch

from marinenav_env import compiling


def test_kernels_are_combined_on_a_gpu_as_far_as_the_version_of_torch_can(monkeypatch):
    asked = []
    monkeypatch.setattr(torch, "compile", lambda function, **options: asked.append(options))
    monkeypatch.setitem(compiling._ON_GPU, "option_of_a_later_version", True)
    for device in ("cpu", "cuda"):
        compiling.compiled(torch.sin, torch.device(device))
    on_cpu, on_gpu = (options["options"] for options in asked)
    assert on_cpu is None
    assert on_gpu["combo_kernels"] is True
    assert "option_of_a_later_version" not in on_gpu


def test_functions_become_one_graph_of_one_shape_unless_several_are_asked_for(monkeypatch):
    asked = []
    monkeypatch.setattr(torch, "compile", lambda function, **options: asked.append(options))
    for options in ({}, {"dynamic": None}, {"dynamic": True}):
        compiling.compiled(torch.sin, torch.device("cpu"), **options)
    assert [each["dynamic"] for each in asked] == [False, None, True]
    assert all(each["fullgraph"] for each in asked)
