"""What is said about the machine."""

from train_RL_agents.benchmark.setting import _processor


def test_processor_is_read_from_its_description(tmp_path):
    file = tmp_path / "cpuinfo"
    file.write_text(
        "model name\t: Fast One\nflags\t\t: fpu avx2 amx_bf16 avx512f\n\nmodel name: B\n"
    )
    assert _processor(file) == ("Fast One", ["avx2", "avx512f", "amx_bf16"])
    name, flags = _processor(tmp_path / "absent")
    assert name
    assert flags == []
