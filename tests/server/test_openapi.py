"""The description is current, complete and readable for those who generate clients from it."""

import json
import re

import make_openapi


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


def test_examples_of_requests_are_accepted():
    from pydantic import TypeAdapter

    from hybrid_scheduler.server import schemas

    for name in schemas.__all__:
        shape = getattr(schemas, name)
        config = getattr(shape, "model_config", {})
        for example in (config.get("json_schema_extra") or {}).get("examples", []):
            TypeAdapter(shape).validate_json(json.dumps(example))
