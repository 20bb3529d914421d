"""Calls through a real helper process with a fake GPU: results, loss of the helper, warm reuse, forks, undoing."""

import gc
import importlib
import operator
import os
import pickle
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

import hybrid_scheduler as hs
from hybrid_scheduler.intercept.helper_client import HelperClient
from hybrid_scheduler.intercept.helper_protocol import socket_path
from hybrid_scheduler.intercept.operators import OPERATORS, rewritten_code

ALWAYS = {"device": "gpu", "quiet": True}


def functions_of(acceleration):
    return {function.variant.name: function for function in acceleration._patches.functions}


def on_gpu(acceleration, name):
    return sum(case.on_gpu for case in functions_of(acceleration)[name].cases.values())


def test_calls_run_in_the_helper_and_give_ordinary_arrays(helper):
    plain = np.fft.fft2
    a = np.random.default_rng(0).normal(size=(512, 512))
    expected = plain(a)
    with hs.accelerate(**ALWAYS) as acceleration:
        result = np.fft.fft2(a)
        again = np.fft.ifft2(result)
        helper.append(acceleration.helper_pid)
        assert helper[0] not in (0, os.getpid())
        assert on_gpu(acceleration, "numpy.fft.fft2") == 1
        assert acceleration.summary().startswith("2 calls on fake accelerator; ")  # without a time on the CPU
        assert "numpy.fft.fft2" in acceleration.table()
        assert np.fft.fft2 == plain
    assert np.fft.fft2 is plain
    np.testing.assert_allclose(result, expected)
    np.testing.assert_allclose(again.real, a)
    assert type(result) is np.ndarray
    result[0, 0] = 1.0  # its memory stays valid after the helper has got another program
    with hs.accelerate(**ALWAYS):
        np.fft.fft2(a + 1)
        assert result[0, 0] == 1.0
        np.testing.assert_allclose(result.ravel()[1:], expected.ravel()[1:])


def test_results_that_nobody_uses_make_room(helper):
    a = np.zeros((256, 1024))
    with hs.accelerate(**ALWAYS) as acceleration:
        helper.append(hs_pid(acceleration, a))
        block = acceleration._session.client._block
        space = block.largest()[1]
        kept = [np.sort(a) for _ in range(4)]
        assert block.largest()[1] < space
        del kept
        gc.collect()
        assert block.largest()[1] >= space


def hs_pid(acceleration, a):
    np.sort(a)
    return acceleration.helper_pid


def test_the_next_program_finds_the_helper_warm(helper, has_ended):
    code = (
        "import hybrid_scheduler as hs, numpy as np\n"
        "with hs.accelerate(device='gpu', quiet=True) as acceleration:\n"
        "    np.sort(np.zeros(100_000))\n    print(acceleration.helper_pid)"
    )
    pids = [int(subprocess.check_output([sys.executable, "-c", code], timeout=60)) for _ in range(2)]
    helper.extend(pids)
    assert pids[0] == pids[1] > 0
    assert has_ended(pids[0])  # and it ends by itself
    assert not os.path.exists(socket_path("fake"))


def test_the_death_of_the_helper_costs_one_call_that_the_library_repeats(helper, has_ended):
    a = np.random.default_rng(0).normal(size=300_000)
    with hs.accelerate(**ALWAYS) as acceleration:
        kept = np.sort(a)
        pid = acceleration.helper_pid
        os.kill(pid, signal.SIGKILL)
        assert has_ended(pid)
        np.testing.assert_array_equal(np.sort(a), kept)
        assert on_gpu(acceleration, "numpy.sort") == 1
        np.testing.assert_array_equal(np.sort(a), kept)  # by another helper
        helper.append(acceleration.helper_pid)
        assert helper[0] != pid
        assert on_gpu(acceleration, "numpy.sort") == 2


def test_a_helper_that_hangs_is_given_up_after_a_time_limit(helper, has_ended, monkeypatch):
    monkeypatch.setenv("HYBRID_SCHEDULER_HELPER_TIMEOUT", "0.2")
    a = np.random.default_rng(0).normal(size=300_000)
    with hs.accelerate(**ALWAYS) as acceleration:
        kept = np.sort(a)
        pid = acceleration.helper_pid
        os.kill(pid, signal.SIGSTOP)
        np.testing.assert_array_equal(np.sort(a), kept)
        assert has_ended(pid)
        assert "timed out" in acceleration._session.client.failure


def test_errors_and_warnings_are_those_of_the_library(helper):
    with hs.accelerate(**ALWAYS) as acceleration:
        with pytest.raises(np.linalg.LinAlgError, match="Singular matrix"):
            np.linalg.solve(np.zeros((100, 100)), np.ones(100))
        with pytest.warns(RuntimeWarning, match="divide by zero encountered in log") as caught:
            np.log(np.zeros(1 << 18))
        assert caught[0].filename == __file__
        with np.errstate(all="raise"), pytest.raises(FloatingPointError, match="overflow"):
            np.exp(np.full(1 << 18, 1e9))
        helper.append(acceleration.helper_pid)
        assert on_gpu(acceleration, "numpy.log") == 0


def test_a_forked_child_uses_the_cpu_and_memory_of_its_own(helper):
    with hs.accelerate(**ALWAYS) as acceleration:
        result = np.sort(np.arange(300_000.0)[::-1].copy())
        helper.append(acceleration.helper_pid)
        pid = os.fork()
        if pid == 0:
            result[:] = -1.0
            same = np.array_equal(np.sort(np.array([2.0, 1.0] * 50_000))[:2], [1.0, 1.0])
            os._exit(0 if same and acceleration.helper_pid == 0 else 1)
        assert os.waitpid(pid, 0)[1] == 0
        assert result[5] == 5.0
        assert np.sort(result)[7] == 7.0
        assert on_gpu(acceleration, "numpy.sort") == 2


def test_threads_share_the_helper_without_waiting_for_each_other(helper):
    values = [np.random.default_rng(seed).normal(size=200_000) for seed in range(8)]
    wrong: list[bool] = []

    def sorts(a):
        wrong.extend(bool((np.diff(np.sort(a)) < 0).any()) for _ in range(5))

    with hs.accelerate(**ALWAYS) as acceleration:
        threads = [threading.Thread(target=sorts, args=(a,)) for a in values]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        helper.append(acceleration.helper_pid)
        cases = functions_of(acceleration)["numpy.sort"].cases.values()
        assert any(case.on_gpu for case in cases)  # counts are not exact when threads call at once
    assert wrong == [False] * 40


def test_the_helper_takes_over_what_it_computes_faster(helper, monkeypatch):
    plain = np.linalg.inv
    pause = threading.Event()

    def slow(a):
        pause.wait(0.02)
        return plain(a)

    monkeypatch.setattr(np.linalg, "inv", slow)
    a = np.eye(70)
    with hs.accelerate(quiet=True) as acceleration:
        for _ in range(2_000):
            np.testing.assert_array_equal(np.linalg.inv(a), a)
            if on_gpu(acceleration, "numpy.linalg.inv") > 5:
                break
        helper.append(acceleration.helper_pid)
        case = next(iter(functions_of(acceleration)["numpy.linalg.inv"].cases.values()))
        assert case.on_gpu > 5
        assert case.saved > 0.0
        assert "numpy.linalg.inv" in acceleration.summary()


def test_short_calls_never_start_a_helper(helper):
    with hs.accelerate(quiet=True) as acceleration:
        for _ in range(1_000):
            np.linalg.inv(np.eye(3))
            np.sort(np.zeros(100))
        assert acceleration.helper_pid == 0
        assert functions_of(acceleration)["numpy.sort"].cases == {}
    assert not os.path.exists(socket_path("fake"))


def test_undoing_restores_everything(helper):
    before = np.linalg.solve, np.exp, np.matmul, OPERATORS.matmul, list(sys.meta_path)
    acceleration = hs.accelerate(**ALWAYS)
    inner = hs.accelerate(**ALWAYS)
    assert np.exp is not before[1]
    assert isinstance(np.exp, np.ufunc)
    assert pickle.loads(pickle.dumps(np.exp)) is np.exp
    assert OPERATORS.matmul is not operator.matmul
    inner.undo()
    assert np.exp is not before[1]
    acceleration.undo()
    acceleration.undo()
    assert (np.linalg.solve, np.exp, np.matmul, OPERATORS.matmul, list(sys.meta_path)) == before
    assert np.exp is before[1]


def test_only_the_named_functions_are_replaced(helper):
    plain = np.linalg.inv
    with hs.accelerate(["numpy.fft", "solve"], quiet=True):
        assert np.linalg.inv is plain
        assert type(np.fft.fft) is not type(plain)
    with pytest.raises(hs.UnknownNameError, match="slove") as error:
        hs.accelerate("slove")
    assert error.value.hint == "did you mean 'solve'?"
    with pytest.raises(hs.UnknownNameError, match="device"):
        hs.accelerate(device="gpuu")


def test_without_a_gpu_nothing_is_replaced(monkeypatch, capsys):
    monkeypatch.setenv("HYBRID_SCHEDULER_BACKEND", "none")
    plain = np.exp
    with hs.accelerate() as acceleration:
        assert np.exp is plain
        assert not acceleration.is_active
    assert "everything runs on the CPU" in capsys.readouterr().err


def test_a_folder_that_others_can_open_is_not_used(helper, monkeypatch, tmp_path):
    socket_path("fake").parent.chmod(0o755)
    with pytest.raises(OSError, match="other users can open"):
        socket_path("fake")
    client = HelperClient("fake")
    assert not client.connect(start=True)
    assert "other users" in client.failure


def test_the_operator_of_own_modules_is_rewritten_and_never_stored(helper, monkeypatch, tmp_path):
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE")
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    (tmp_path / "own_products.py").write_text("def product(a, b):\n    return a @ b\n")
    monkeypatch.syspath_prepend(tmp_path)
    a = np.eye(128)
    with hs.accelerate(**ALWAYS) as acceleration:
        own_products = importlib.import_module("own_products")
        np.testing.assert_array_equal(own_products.product(a, a), a)
        helper.append(acceleration.helper_pid)
        assert on_gpu(acceleration, "numpy.matmul") == 1  # the last one of this name is the operator
    assert own_products.product(a, a)[0, 0] == 1.0
    sys.modules.pop("own_products")
    assert not list(tmp_path.glob("__pycache__/own_products*"))


def test_files_for_compilers_of_python_keep_their_operators():
    assert rewritten_code(b"from numba import njit\n@njit\ndef f(a, b):\n    return a @ b\n", "file.py") is None
    assert rewritten_code(b"@property\ndef f(a): ...\n", "file.py") is None
    assert rewritten_code(b"c = a @ b\n", "file.py") is not None


def test_rewritten_functions_are_plain_in_other_processes():
    cloudpickle = pytest.importorskip("cloudpickle")
    names: dict = {}
    exec(rewritten_code(b"def f(a, b):\n    return a @ b\n", "file.py"), names)
    function = pickle.loads(cloudpickle.dumps(names["f"]))
    assert operator in function.__code__.co_consts
    assert function(np.eye(2), np.eye(2))[0, 0] == 1.0


def test_compiled_functions_find_what_they_know_of_a_replaced_function(helper):
    numba = pytest.importorskip("numba")
    with hs.accelerate(quiet=True):
        compiled = numba.njit(lambda a: np.exp(a) + np.linalg.inv(a))
        assert compiled(np.eye(2))[0, 0] == np.exp(1.0) + 1.0


def test_notebooks_load_and_unload_it(helper):
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell.instance()
    plain = np.sort
    try:
        shell.run_line_magic("load_ext", "hybrid_scheduler")
        assert np.sort is not plain
        shell.user_ns["a"] = np.eye(3)
        assert not shell.run_cell("b = a @ a\nc = 1 @ 2", silent=True).success
        assert shell.user_ns["b"][0, 0] == 1.0
        shell.run_line_magic("unload_ext", "hybrid_scheduler")
        assert np.sort is plain
        assert shell.run_cell("b = a @ a", silent=True).success
    finally:
        InteractiveShell.clear_instance()
