"""Damaged files for every reader: each is read, or refused with a reason; nothing else comes out of a reader."""

from __future__ import annotations

import random
import resource
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from fault_scale import FULL, amount

from hybrid_scheduler import save_workload
from hybrid_scheduler.config import load_settings
from hybrid_scheduler.core import HybridSchedulerError
from hybrid_scheduler.profiling.hardware_profile import load_profile
from hybrid_scheduler.storage.history_csv import COLUMNS, read_history
from hybrid_scheduler.workload import fork_join, load_with_report
from hybrid_scheduler.workload.trace_formats import import_trace

TRACES = Path(__file__).parents[1] / "workload" / "foreign_traces"
ROOT = Path(__file__).parents[2]
PHILLY = b"""[{"status": "Pass", "vc": "6214e9", "jobid": "application_1", "submitted_time": "2017-10-09 07:01:51",
"attempts": [{"start_time": "2017-10-09 07:02:00", "end_time": "2017-10-09 07:03:40",
"detail": [{"ip": "m1", "gpus": ["gpu0", "gpu1"]}]}]}]"""
HELIOS = b"""job_id;user;gpu_num;cpu_num;state;submit_time;duration
1;u;2;8;COMPLETED;2020-04-01 00:00:10;50
2;u;0;8;COMPLETED;2020-04-01 00:00:40;0
"""
#: Pieces that readers stumble over, put where something else was.
TOKENS = (
    b"", b"\0", b"\xff", b'"', b"'", b",", b";", b"\t", b"\n", b"\r", b"-", b"=", b"{", b"}", b"[", b"]", b":",
    b"1e999", b"nan", b"NaN", b"Infinity", b"-1", b"1e308", b"5e-324", b"9" * 30, b"9" * 5000, b"null", b"true",
    b"\xef\xbb\xbf", b'"\\ud800"', b"[" * 2000, b"1970-01-01", b"9999-12-31 23:59:59", b"a" * 70_000,
)  # fmt: skip
#: Most processor seconds and memory for one input.
SECONDS, BYTES = 2.0, 128 * 2**20


def read_trace(path, form):
    for skip_bad in (False, True):
        workload, report = import_trace(path, format=form, skip_bad=skip_bad)
        assert len(workload) == report.rows_kept
        assert np.all(np.isfinite(workload.size))
        assert np.all(np.isfinite(workload.arrival_time))


def read_table(path):
    for skip_bad in (False, True):
        workload, report = load_with_report(path, skip_bad=skip_bad)
        assert len(workload) == report.rows_kept


def saved(suffix, folder):
    path = folder / f"good{suffix}"
    save_workload(fork_join(1, 4, 0), path)
    return path.read_bytes()


def good_history(folder):
    return (",".join(COLUMNS) + "\n1,100,0.5,10,0,0.5,1,2,3,4\n2,90,0.25,10,1,1,1,2,3,4\n").encode()


def of(path, most=None):
    return lambda folder: path.read_bytes()[:most]


#: Name, ending, a good file and its reader.
READERS = [
    ("swf", ".swf", of(TRACES / "jobs.swf"), partial(read_trace, form="swf")),
    ("alibaba", ".csv", of(TRACES / "alibaba_pods.csv", 2000), partial(read_trace, form="alibaba")),
    ("azure", ".csv", of(TRACES / "azure_llm.csv", 800), partial(read_trace, form="azure")),
    ("gavel", ".trace", of(TRACES / "gavel_small.trace", 1200), partial(read_trace, form="gavel")),
    ("wfformat", ".json", of(TRACES / "helloworld-chain-5-chameleon.json"), partial(read_trace, form="wfformat")),
    ("philly", ".json", lambda folder: PHILLY, partial(read_trace, form="philly")),
    ("helios", ".csv", lambda folder: HELIOS, partial(read_trace, form="philly")),
    ("csv", ".csv", partial(saved, ".csv"), read_table),
    ("parquet", ".parquet", partial(saved, ".parquet"), read_table),
    ("history", ".csv", good_history, read_history),
    ("profile", ".json", of(ROOT / "src/hybrid_scheduler/profiles/starpu_mirage.json", 20_000), load_profile),
    ("config", ".yaml", of(ROOT / "config.yaml"), lambda path: load_settings(path, {}, environ={})),
]


def mutant(good, chance):
    content = bytearray(good)
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(content) + 1)
        content[at : at + chance.choice([0, 1, 1, 8, 100])] = chance.choice(TOKENS)
    return bytes(content)


def resident_peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@pytest.mark.timeout(1400)
@pytest.mark.parametrize(("name", "suffix", "make", "read"), READERS, ids=[reader[0] for reader in READERS])
def test_damaged_file_is_read_or_refused(tmp_path, name, suffix, make, read, record_property):
    good = make(tmp_path)
    path = tmp_path / f"mutant{suffix}"
    path.write_bytes(good)
    chance = random.Random(18)
    refused, worst, messages = 0, 0.0, ""
    before = resident_peak()
    mutants = amount(40, 10_000)
    for _ in range(mutants):
        path.write_bytes(mutant(good, chance))
        began = time.process_time()
        try:
            read(path)
        except HybridSchedulerError as error:
            refused += 1
            messages = (messages + str(error))[-100_000:]
        worst = max(worst, time.process_time() - began)
    assert refused > 0
    if name != "config":  # a file of the operator, whose full path helps
        assert str(tmp_path) not in messages, "messages name the file, not its folder"
    grown = resident_peak() - before
    if FULL:
        assert worst <= SECONDS
        assert grown <= BYTES
    figure = (
        f"{name}: {mutants} inputs, {refused} refused, 0 crashes, worst {worst:.2f} s, {grown / 2**20:+.0f} MiB"
    )
    record_property("figure", figure)
