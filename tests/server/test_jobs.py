"""Routes of job logs: a log on a cluster, a forecast, and errors that name the line."""

from httpx import AsyncClient

from hybrid_scheduler.jobs.cluster_report import example_log

SWF = {"content-type": "text/plain"}


async def test_a_log_is_simulated_and_a_job_forecast(client: AsyncClient) -> None:
    example = await client.get("/api/jobs/example")
    assert example.text == example_log()
    answer = await client.post(
        "/api/jobs/simulate?gpus_per_node=8&policy=saf&node=3", headers=SWF, content=example.text, timeout=300
    )
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert found["jobs"] == 600
    assert found["policies"][0]["policy"] == "saf"
    assert found["node"]["name"] == "node 3"
    assert found["configuration"] == {"slurm": None, "kueue": None}
    forecast = await client.post(
        "/api/jobs/forecast?processors=8&requested_time=3600", headers=SWF, content=example.text, timeout=300
    )
    assert forecast.status_code == 200, forecast.text
    assert forecast.json()["interval"][0] <= forecast.json()["interval"][1]


async def test_bad_logs_name_line_field_and_value(client: AsyncClient) -> None:
    bad = "1 0 -1 -5 4 -1 -1 4 10 -1 1 1 1 1 1 1 -1 -1\n"
    answer = await client.post("/api/jobs/simulate", headers=SWF, content=bad, timeout=300)
    assert answer.status_code == 422
    assert "line 1" in answer.text
    assert "run time" in answer.text
    assert ".upload-" not in answer.text
    unknown = await client.post("/api/jobs/simulate?policy=fcf", headers=SWF, content=example_log(), timeout=300)
    assert unknown.status_code == 422
    assert "fcfs" in unknown.text
