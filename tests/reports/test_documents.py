"""Tables and JSON that any reader takes."""

import csv
import json
import math

from hybrid_scheduler.core.canonical_json import pretty_json
from hybrid_scheduler.reports.file_formats import write_table


def test_nan_is_null_in_json():
    found = json.loads(pretty_json({"a": (1.5, math.nan), 2: {"b": -math.inf, "c": None, "d": "x"}}))
    assert found == {"a": [1.5, None], "2": {"b": None, "c": None, "d": "x"}}


def test_table_reads_back_exactly(tmp_path):
    path = tmp_path / "table.csv"
    write_table(
        path, ("name", "value"), [{"name": "a,b", "value": 0.1 + 0.2, "more": 1}, {"name": "c", "value": math.nan}]
    )
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["name"] for row in rows] == ["a,b", "c"]
    assert float(rows[0]["value"]) == 0.1 + 0.2
    assert rows[1]["value"] == ""
    assert path.read_bytes().endswith(b"c,\n")


def test_table_has_no_cell_that_a_spreadsheet_would_run(tmp_path):
    path = tmp_path / "table.csv"
    texts = ["=1+1", "+1", "-x", "@SUM(A1)", "\tx", "plain", "'quoted"]
    write_table(path, ("name", "value"), [{"name": text, "value": -1.5} for text in texts])
    written = path.read_text(encoding="utf-8").splitlines()[1:]
    assert [line.partition(",")[0] for line in written] == [f"'{text}" for text in texts[:5]] + texts[5:]
    assert all(line.endswith(",-1.5") for line in written)
