"""Which measurements are learned from."""

from hybrid_scheduler.runtime.outlier_filter import OutlierFilter

CPU, GPU = 0, 1


def test_a_first_run_of_its_size_says_nothing_where_things_must_be_made_ready() -> None:
    doubt = OutlierFilter(frozenset({GPU}))
    assert doubt.believes("fft", CPU, 100.0, 1.0)
    assert not doubt.believes("fft", GPU, 100.0, 1.0)
    assert doubt.believes("fft", GPU, 100.0, 1.0)
    assert doubt.believes("fft", GPU, 140.0, 1.0)  # near enough
    assert not doubt.believes("fft", GPU, 300.0, 1.0)
    assert not doubt.believes("sort", GPU, 100.0, 1.0)
    assert (doubt.runs("fft", GPU), doubt.runs("fft", CPU), doubt.runs("sort", CPU)) == (4, 1, 0)


def test_a_slow_run_among_others_is_doubted_and_a_second_one_is_believed() -> None:
    doubt = OutlierFilter(frozenset())
    took = [1.0, 1.1, 8.0, 0.9, 8.0, 8.0, 8.0]
    assert [doubt.believes("fft", CPU, 100.0, seconds) for seconds in took] == [
        True, True, False, True, False, True, True,
    ]  # fmt: skip


def test_a_faster_run_is_always_believed() -> None:
    doubt = OutlierFilter(frozenset())
    assert doubt.believes("fft", CPU, 100.0, 1.0)
    assert doubt.believes("fft", CPU, 100.0, 0.01)


def test_growth_with_the_data_is_no_disturbance() -> None:
    doubt = OutlierFilter(frozenset())
    assert doubt.believes("fft", CPU, 100.0, 1.0)
    assert doubt.believes("fft", CPU, 145.0, 2.6)
