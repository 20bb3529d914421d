"""Detection of devices: found, missing and unusable ones."""

import os
import re
import socket
import warnings
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import profile_examples
import pytest
import torch

from hybrid_scheduler.core import InvalidInputError, UnknownNameError
from hybrid_scheduler.profiling import machine_info
from hybrid_scheduler.profiling.machine_info import Gpu, describe_machine, find_gpu


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """A machine without any accelerator or driver."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    monkeypatch.setattr(machine_info, "gpu_count", lambda: 0)
    monkeypatch.setattr(machine_info, "NVIDIA_GPUS", tmp_path / "nothing")
    return monkeypatch


def with_cuda(monkeypatch: pytest.MonkeyPatch, error: Exception | None = None) -> None:
    real = torch.ones

    def ones(*shape: int, device: str = "cpu") -> torch.Tensor:
        if error is not None and device == "cuda":
            raise error
        return real(*shape)

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch, "ones", ones)
    known = SimpleNamespace(name="Example GPU", total_memory=2**34)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: known)
    monkeypatch.setattr(machine_info, "driver_version", lambda: "580.1")


def test_machine_without_accelerator_has_no_gpu(bare: pytest.MonkeyPatch) -> None:
    assert find_gpu("auto") is None
    assert find_gpu("cpu") is None


@pytest.mark.parametrize("kind", ["cuda", "mps"])
def test_device_that_is_not_there_is_an_error(kind: str, bare: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        InvalidInputError, match=f"device_type: must be auto, cpu or an accelerator of this machine, got '{kind}'"
    ):
        find_gpu(kind)


def test_unknown_device_is_an_error() -> None:
    with pytest.raises(UnknownNameError) as caught:
        find_gpu("cuda0")
    assert caught.value.hint == "did you mean 'cuda'?"


def test_cuda_gpu_is_found_with_its_name(bare: pytest.MonkeyPatch) -> None:
    with_cuda(bare)
    for asked in ("auto", "cuda"):
        gpu = find_gpu(asked)
        assert gpu is not None
        assert (gpu.kind, gpu.name, gpu.memory, gpu.driver) == ("cuda", "Example GPU", 2**34, "580.1")
    assert find_gpu("cpu") is None


@pytest.mark.parametrize("asked", ["auto", "cuda"])
def test_cuda_that_cannot_run_a_kernel_falls_back(asked: str, bare: pytest.MonkeyPatch) -> None:
    with_cuda(bare, RuntimeError("no kernel image is available\nmore lines"))
    with pytest.warns(UserWarning, match=r"the CPU is used instead: no kernel image is available$"):
        assert find_gpu(asked) is None


@pytest.mark.parametrize(("cuda", "reason"), [(None, "built without CUDA"), ("13.0", "driver may be too old")])
def test_gpu_that_torch_does_not_see_falls_back(cuda: str | None, reason: str, bare: pytest.MonkeyPatch) -> None:
    bare.setattr(machine_info, "gpu_count", lambda: 1)
    bare.setattr(torch.version, "cuda", cuda)
    with pytest.warns(UserWarning, match=reason):
        assert find_gpu("cuda") is None


def test_hidden_gpu_is_not_there(bare: pytest.MonkeyPatch) -> None:
    bare.setattr(machine_info, "gpu_count", lambda: 1)
    bare.setenv("CUDA_VISIBLE_DEVICES", "")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert find_gpu("auto") is None


def test_mps_is_found_and_falls_back(bare: pytest.MonkeyPatch) -> None:
    bare.setattr(torch.backends.mps, "is_available", lambda: True)
    bare.setattr(torch.mps, "recommended_max_memory", lambda: 2**33)
    real = torch.ones
    bare.setattr(torch, "ones", lambda *shape, device: real(*shape))
    gpu = find_gpu("auto")
    assert gpu is not None
    assert (gpu.kind, gpu.memory) == ("mps", 2**33)

    def broken(*_: object, **__: object) -> torch.Tensor:
        raise RuntimeError("metal is off")

    bare.setattr(torch, "ones", broken)
    with pytest.warns(UserWarning, match="mps cannot be used"):
        assert find_gpu("mps") is None


def test_description_of_this_machine_is_complete_and_not_personal() -> None:
    machine = describe_machine(threads=3)
    assert machine.threads == 3
    assert machine.cores >= 1
    assert machine.cpu
    assert machine.memory is None or machine.memory > 2**20
    assert (machine_info.available_memory() or 1) > 0
    personal = {socket.gethostname(), os.environ.get("USER") or "no user name"}
    assert not personal & set(map(str, machine.as_dict().values()))


def test_id_depends_on_the_processors_only() -> None:
    machine = profile_examples.machine()
    assert re.fullmatch("[0-9a-f]{12}", machine.id)
    assert replace(machine, torch="3.0", python="3.13.0", memory=1, threads=2).id == machine.id
    assert machine.gpu is not None
    assert replace(machine, gpu=replace(machine.gpu, driver="600.0")).id == machine.id
    others = {replace(machine, cpu="another").id, replace(machine, cores=8).id, replace(machine, gpu=None).id}
    assert len({machine.id, *others}) == 4


def test_available_memory_respects_container_limits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(machine_info, "CGROUP_FOLDER", tmp_path)
    (tmp_path / "memory.max").write_text("3000\n")
    (tmp_path / "memory.current").write_text("1000\n")
    assert machine_info.available_memory() == 2000


def test_missing_nvml_gives_no_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(machine_info, "import_module", missing)
    assert machine_info.nvml() is None
    assert machine_info.gpu_count() == 0
    assert machine_info.driver_version() is None


def test_nvml_gives_gpu_count_and_driver_version(monkeypatch: pytest.MonkeyPatch) -> None:
    library = SimpleNamespace(
        nvmlInit=lambda: None, nvmlDeviceGetCount=lambda: 2, nvmlSystemGetDriverVersion=lambda: b"580.1"
    )
    monkeypatch.setattr(machine_info, "import_module", lambda _: library)
    assert machine_info.gpu_count() == 2
    assert machine_info.driver_version() == "580.1"


def test_equal_gpus_compare_equal() -> None:
    assert Gpu("cuda", "X", None) == Gpu("cuda", "X", None)
