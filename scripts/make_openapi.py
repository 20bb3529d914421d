"""Write docs/openapi.json, from which clients such as the dashboard are generated. Run with the project's Python.

python scripts/make_openapi.py            writes it
python scripts/make_openapi.py --check    exit code 1 if it is not what the server would say
"""

from __future__ import annotations

import json
import sys

from bootstrap import ROOT, print_help_if_asked

TARGET = ROOT / "docs" / "openapi.json"


def document() -> str:
    from hybrid_scheduler.server.app import bare_app
    from hybrid_scheduler.server.app_context import ServerOptions

    return json.dumps(bare_app(ServerOptions()).openapi(), indent=1, ensure_ascii=False) + "\n"


def main(arguments: list[str]) -> int:
    text = document()
    if "--check" in arguments:
        current = TARGET.is_file() and TARGET.read_text(encoding="utf-8") == text
        print("current" if current else f"{TARGET.name} is out of date: run scripts/make_openapi.py")
        return 0 if current else 1
    TARGET.write_text(text, encoding="utf-8")
    print(f"wrote {TARGET.relative_to(TARGET.parent.parent)}")
    return 0


if __name__ == "__main__":
    print_help_if_asked(__doc__)
    sys.exit(main(sys.argv[1:]))
