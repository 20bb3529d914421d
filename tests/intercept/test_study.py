"""The study of unchanged programs: every script gives the same result in every way."""

import json

from studies import unchanged_programs


def test_all_scripts_agree_in_all_ways(environment, monkeypatch, tmp_path, capsys):
    for name in ("HYBRID_SCHEDULER_BACKEND", "PYTHONDONTWRITEBYTECODE"):
        monkeypatch.setenv(name, environment[name])
    output = tmp_path / "found.json"
    unchanged_programs.main(["--rounds", "1", "--scale", "0.06", "--warm", "--output", str(output)])
    found = json.loads(output.read_text(encoding="utf-8"))
    assert found["differences"] == []
    assert set(found["seconds"]) == set(unchanged_programs.SCRIPTS)
    assert all(len(ways) == 3 for ways in found["seconds"].values())
    assert "quantiles" in capsys.readouterr().out
