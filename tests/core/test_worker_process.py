"""Worker processes end with their parent and are replaced after they died."""

import os
import subprocess
import sys
import threading
import time

import pytest

from hybrid_scheduler.core.worker_process import WorkerProcess


def _exists(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        with open(f"/proc/{pid}/stat") as stat:  # a zombie has ended
            return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def _ends(pid, timeout=30.0):
    deadline = time.monotonic() + timeout
    while _exists(pid):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


@pytest.fixture
def worker():
    made = WorkerProcess("test process", niceness=1)
    yield made
    made.stop()


def test_functions_run_in_one_other_process(worker):
    assert not worker.started
    first = worker.submit(os.getpid).result(60)
    assert worker.started
    assert first != os.getpid()
    assert worker.submit(os.getpid).result(60) == first


def test_process_that_dies_is_replaced(worker):
    with pytest.raises(Exception, match="terminated abruptly"):
        worker.submit(os._exit, 3).result(60)
    assert worker.submit(os.getpid).result(60) != os.getpid()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
def test_idle_process_ends_and_is_started_again():
    worker = WorkerProcess("test process", idle_s=0.05)
    pid = worker.submit(os.getpid).result(60)
    assert _ends(pid)
    other = worker.submit(os.getpid).result(60)
    assert other != pid
    assert _ends(other)
    worker.stop()


def test_busy_process_is_not_idle():
    worker = WorkerProcess("test process", idle_s=0.01)
    waiting = [worker.submit(time.sleep, 0.2) for _ in range(3)]
    for future in waiting:
        assert future.result(60) is None
    worker.stop()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
def test_stop_ends_a_process_that_is_busy(worker):
    pid = worker.submit(os.getpid).result(60)
    worker.submit(time.sleep, 600)
    worker.stop()
    assert not worker.started
    assert _ends(pid)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
def test_stop_leaves_no_thread_behind_that_hands_large_arguments_over(worker):
    before = set(threading.enumerate())
    for _ in range(3):
        worker.submit(len, bytes(16_000_000))  # more than a pipe holds, before the process reads it
        time.sleep(0.05)
        worker.stop()
    deadline = time.monotonic() + 20.0
    while set(threading.enumerate()) - before:
        assert time.monotonic() < deadline, set(threading.enumerate()) - before
        time.sleep(0.05)


def test_process_ends_with_a_parent_that_was_killed():
    program = (
        "import os\n"
        "from hybrid_scheduler.core.worker_process import WorkerProcess\n"
        "if __name__ == '__main__':\n"
        "    worker = WorkerProcess('test process')\n"
        "    print(worker.submit(os.getpid).result(60), flush=True)\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert ended.returncode == -9, ended.stderr
    assert _ends(int(ended.stdout))
