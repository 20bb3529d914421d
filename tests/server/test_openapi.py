"""The description is current, complete and readable for those who generate clients from it."""

import json
import re

import published
import pytest
from pydantic import TypeAdapter

import make_openapi
from hybrid_scheduler.server.openapi_document import EXAMPLES, RECORDS


def test_the_document_in_docs_is_current():
    assert make_openapi.main(["--check"]) == 0


def test_every_operation_is_described():
    document = json.loads(make_openapi.document())
    names = set()
    for path, ways in document["paths"].items():
        for method, operation in ways.items():
            assert operation["summary"], path
            assert operation["tags"], path
            assert re.fullmatch(r"[a-z][A-Za-z]+", operation["operationId"])
            names.add(operation["operationId"])
            for status in ("401", "403", "429", "500"):
                schema = operation["responses"][status]["content"]["application/json"]["schema"]
                assert schema == {"$ref": "#/components/schemas/ErrorBody"}
            if method == "post":
                assert {"413", "415"} <= set(operation["responses"]), path
            for parameter in operation.get("parameters", []):
                assert parameter.get("description") or parameter["in"] == "path", (path, parameter["name"])
    assert len(names) == sum(len(ways) for ways in document["paths"].values())
    assert {"Hello", "SimulationUpdate", "Notification", "LogLine"} <= set(document["components"]["schemas"])


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_of_requests_are_accepted(name):
    shape = next((record for record in RECORDS if record.__name__ == name), None) or getattr(published, name)
    TypeAdapter(shape).validate_json(json.dumps(EXAMPLES[name]))


def test_fields_of_records_are_described_where_they_are_defined():
    schemas = json.loads(make_openapi.document())["components"]["schemas"]
    assert all("---" not in schema.get("description", "") for schema in schemas.values())
    verdict = schemas["Verdict"]["properties"]
    assert verdict["over_floor"]["description"] == "The leader's mean latency over that bound."
    assert verdict["sentence"]["description"].startswith("The headline as one sentence")
    status = schemas["LiveStatus"]
    assert status["properties"]["load"]["description"] == "Offered load as a share of the machine's capacity."
    assert "verdict" not in status["required"]
    assert {"state", "comparison"} <= set(status["required"])
