"""Own trace: written as CSV, read back, compared, and printed as a Gantt chart in text.

python examples/own_trace.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from hybrid_scheduler import compare, load_workload, workstation

TRACE = """task_id,size,compute_intensity,memory_required,arrival_time,kind
1,1200,0.9,80,0.0,soup
2,400,0.1,900,0.1,salad
3,3000,0.8,120,0.15,roast
4,800,0.5,60,0.4,bread
5,2500,0.3,2000,0.5,stew
"""
COLUMNS = 72


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mine.csv"
        path.write_text(TRACE, encoding="utf-8")
        tasks = load_workload(path)
    machine = workstation()
    result = compare(tasks, ["gpu_only", "earliest_finish"], platform=machine)
    for name, run in result.results.items():
        print(f"\n{name}: mean latency {result.summaries[name].latency.mean:.3f} s")
        row, device, start, end = run.gantt()
        scale = COLUMNS / float(end.max())
        for lane, one in enumerate(machine.devices):
            line = np.full(COLUMNS, "·")
            for i in np.flatnonzero(device == lane):
                line[int(start[i] * scale) : max(int(end[i] * scale), int(start[i] * scale) + 1)] = str(
                    tasks.task_id[row[i]]
                )
            print(f"  {one.name:6s} {''.join(line)}")


if __name__ == "__main__":
    main()
