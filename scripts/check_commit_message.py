"""Check of a commit message against the rules of CONTRIBUTING.md, for the hook `commit-msg`.

python3 scripts/check_commit_message.py .git/COMMIT_EDITMSG

The exit code is 1 if a rule is broken. Only the standard library is used, so that the hook needs no environment.
"""

import re
import sys
from pathlib import Path

MAX_SUBJECT = 72
_HINT = "CONTRIBUTING.md, section Commits, states the rules"
#: Subjects that git writes itself, or that a later rebase removes.
_WRITTEN_BY_GIT = re.compile(r"(Merge|Revert) |(fixup|squash|amend)! ")
#: First words that describe what was done instead of saying what the commit does.
_NOT_IMPERATIVE = re.compile(
    r"(?:[a-z]{2,}(?:ed|ing)|adds|allows|changes|fixes|makes|moves|removes|renames|updates|uses)\b", re.IGNORECASE
)
#: Imperatives that only look like a past or a continuous form.
_IMPERATIVE = re.compile(
    r"(?:embed|exceed|feed|need|proceed|seed|shed|speed|bring|ring|string|swing)\b", re.IGNORECASE
)
#: Everything below this line is the diff that `git commit --verbose` shows.
_SCISSORS = "# ------------------------ >8 ------------------------"


def problems(message: str) -> list[str]:
    """Return one sentence per broken rule.

    Parameters
    ----------
    message
        The message as git passes it to the hook, comment lines included.
    """
    text = message.partition(_SCISSORS)[0]
    lines = [line.rstrip() for line in text.splitlines() if not line.startswith("#")]
    while lines and not lines[0]:
        del lines[0]
    if not lines:
        return []  # git itself refuses an empty message
    subject = lines[0]
    if _WRITTEN_BY_GIT.match(subject):
        return []
    found = []
    if len(subject) > MAX_SUBJECT:
        found.append(f"subject: must have at most {MAX_SUBJECT} characters, got {len(subject)}")
    if subject.endswith("."):
        found.append("subject: must not end with a period")
    if not subject[0].isupper():
        found.append(f"subject: must begin with a capital letter, got '{subject[0]}'")
    if _NOT_IMPERATIVE.match(subject) and not _IMPERATIVE.match(subject):
        found.append(f"subject: must begin with an imperative such as Add or Fix, got '{subject.split()[0]}'")
    if len(lines) > 1 and lines[1]:
        found.append("body: must be separated from the subject by an empty line")
    return found


def main(arguments: list[str]) -> int:
    """Check the file that git passes, and print what is wrong with it."""
    if arguments in (["-h"], ["--help"]):
        print((__doc__ or "").strip())
        return 0
    if len(arguments) != 1:
        print("usage: check_commit_message.py FILE", file=sys.stderr)
        return 2
    found = problems(Path(arguments[0]).read_text(encoding="utf-8"))
    for problem in found:
        print(f"error: {problem}", file=sys.stderr)
    if found:
        print(f"hint: {_HINT}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
