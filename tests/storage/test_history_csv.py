"""The CSV beside the database."""

import pytest
from batches import Engine

from hybrid_scheduler.core import InvalidInputError
from hybrid_scheduler.storage.history_csv import COLUMNS, HistoryCsv, read_history
from hybrid_scheduler.workload.trace_files import load_workload


def test_rows_read_back_exactly_and_as_a_trace(tmp_path):
    history = HistoryCsv(tmp_path / "data" / "history.csv")
    engine = Engine()
    batches = list(engine.batches(2, 5))
    history.append(batches)
    history.append([engine.batch(0)])
    tasks, fraction, seconds = read_history(history.path)
    assert tasks.task_id.tolist() == list(range(1, 11))
    assert tasks.size.tolist() == [x for batch in batches for x in batch.tasks.size.tolist()]
    assert fraction.tolist() == [x for batch in batches for x in batch.optimal_fraction.tolist()]
    assert seconds.tolist() == [x for batch in batches for x in batch.optimal_time.tolist()]
    assert load_workload(history.path).arrival_time.tolist() == [float(x) for x in range(10)]


def test_partial_row_of_a_killed_process_is_removed(tmp_path):
    history = HistoryCsv(tmp_path / "history.csv")
    engine = Engine()
    history.append([engine.batch(3)])
    with open(history.path, "a") as file:
        file.write("4,123.4")
    HistoryCsv(history.path).append([engine.batch(2)])
    assert read_history(history.path)[0].task_id.tolist() == [1, 2, 3, 4, 5]


def test_oldest_rows_leave_beyond_the_retention(tmp_path):
    engine = Engine()
    history = HistoryCsv(tmp_path / "history.csv", keep_tasks=20)
    for batch in engine.batches(5, 5):
        history.append([batch])
    assert len(read_history(history.path)[0]) == 25  # a quarter more than the limit
    history.append([engine.batch(1)])
    assert read_history(history.path)[0].task_id.tolist() == list(range(7, 27))
    again = HistoryCsv(history.path, keep_tasks=20)  # counts what the last process left
    again.append([engine.batch(10)])
    assert read_history(history.path)[0].task_id.tolist() == list(range(17, 37))
    assert [path.name for path in tmp_path.iterdir()] == ["history.csv"]
    again.clear()
    again.append([engine.batch(25)])
    assert len(read_history(history.path)[0]) == 25


def test_unwritable_file_is_logged_and_the_run_continues(tmp_path, caplog):
    history = HistoryCsv(tmp_path)
    history.append([Engine().batch(1)])
    history.append([Engine().batch(1)])
    assert caplog.text.count("cannot be written") == 1
    HistoryCsv(tmp_path / "none.csv").clear()


def test_without_an_oracle_its_cells_are_empty(tmp_path):
    history = HistoryCsv(tmp_path / "history.csv")
    history.append([Engine(schedulers=("greedy",)).batch(1)])
    assert history.path.read_text().splitlines()[1].endswith(",,,")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a,b\n1,2\n", "column task_id"),
        (",".join(COLUMNS) + "\n", "at least one row"),
        (",".join(COLUMNS) + "\n1,x,0,0,0,0,0,0,0,0\n", "line 2"),
        (",".join(COLUMNS) + "\n1,2\n", "line 2"),
    ],
)
def test_file_with_other_columns_is_refused(tmp_path, text, complaint):
    (tmp_path / "h.csv").write_text(text)
    with pytest.raises(InvalidInputError, match=complaint):
        read_history(tmp_path / "h.csv")
