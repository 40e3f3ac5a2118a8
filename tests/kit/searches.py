"""A search that is small and fast: ideas add a line of shell to a model, a shell script measures it."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from kit.project import Project, Said

# Each file in plus/ is one idea; a config is worth `gain + config_id`.  The hook is no input: it may take its time.
SWEEP = """\
results=$1 configs=$2
gain=10 risk=5 bad=
echo "sweep $(basename "$PWD")" >> "$LIST"
[ -e "$LIST.hook" ] && . "$LIST.hook"
for idea in plus/*; do . "./$idea"; done
{
  echo config_id,status,error,gain,risk
  i=0
  while [ "$i" -lt "$configs" ]; do
    case " $bad " in
      *" $i "*) echo "$i,error,bad on purpose,," ;;
      *) echo "$i,ok,,$((gain + i)),$risk" ;;
    esac
    i=$((i + 1))
  done
} > "$results"
"""
ROW = """\
results=$1 id=$2
gain=10 risk=5 bad=
echo "row $(basename "$PWD") $id" >> "$LIST"
[ -e "$LIST.hook" ] && . "$LIST.hook"
for idea in plus/*; do . "./$idea"; done
case " $bad " in *" $id "*) exit 3 ;; esac
printf 'gain,risk\\n%s,%s\\n' "$((gain + $3))" "$risk" > "$results"
"""
TESTS = """\
echo "test $(basename "$PWD")" >> "$LIST"
! grep -q broken plus/*
"""
# What a model would do is shell: `agent.<role>`, which finds the prompt in $prompt and answers by printing.
AGENT = """\
project=$1 role=$2 prompt=$(cat)
echo "$role $(basename "$PWD")" >> "$project/list"
. "$project/agent.$role"
"""
START = {"plus/start": ":\n", "README": "A model.\n"}
RUN = "x"


def idea(text: str) -> str:
    return f"IDEA: {text}\n\nRATIONALE: It may help.\n\nREQUIRED_CHANGES:\n- Add a file.\n"


def adding(name: str, text: str) -> str:
    """A patch with a new file, which applies wherever there is none of that name."""
    lines = "".join(f"+{line}\n" for line in text.splitlines())
    head = f"diff --git a/{name} b/{name}\nnew file mode 100644\n--- /dev/null\n+++ b/{name}\n"
    return f"{head}@@ -0,0 +1,{lines.count(chr(10))} @@\n{lines}"


def write_idea(project: Project, folder: str, text: str, change: str) -> None:
    """As one that is recorded below ideas/: the backend `patches` reads both files."""
    project.write(f"ideas/{folder}/idea.md", text)
    project.write(f"ideas/{folder}/change.patch", change)


class Search:
    """A project with one tree spec, its ideas recorded as patches."""

    def __init__(self, project: Project, ideas: Mapping[str, str], **spec: Any) -> None:
        self.project, self.root = project, project.root
        for path, text in START.items():
            project.write(f"repo/{path}", text)
        for name, text in (("sweep.sh", SWEEP), ("row.sh", ROW), ("tests.sh", TESTS), ("agent.sh", AGENT)):
            project.write(name, text)
        (self.root / "ideas").mkdir()
        for name, shell in ideas.items():
            self.idea(name, shell)
        self.keys: dict[str, Any] = {
            "kind": "tree",
            "repo": "repo",
            "ideas_per_node": len(ideas) or 1,
            "max_depth": 1,
            "sweep_config_limit": 3,
            "patience": 0,
            "sandbox": "plain",  # commands of these searches write notes beside their checkouts
            "roles": {"ideas": {"backend": "patches", "folder": "ideas"}, "coder": {"backend": "patches"}},
            "sweep": command("sh {in} {results} {limit}", "sweep.sh"),
            "metrics": {"gain": {"primary": True}, "risk": {"better": "lower", "guard": True}},
        }
        self.spec(**spec)

    def idea(self, name: str, shell: str, text: str = "") -> None:
        write_idea(self.project, name, text or idea(name), adding(f"plus/{name}", shell))

    def spec(self, run: str = RUN, **keys: Any) -> None:
        """A key that is None is dropped."""
        self.keys = {name: value for name, value in {**self.keys, **keys}.items() if value is not None}
        self.project.spec(run, yaml.safe_dump(self.keys, sort_keys=False))

    def build(self, *words: str, code: int = 0) -> Said:
        said = self.project.call("run", "--verbose", *words)
        assert said.code == code, said
        assert "Traceback" not in said.out + said.err, said
        return said

    def executed(self) -> list[str]:
        """What commands have noted since the last look, sorted."""
        note = self.root / "list"
        lines = sorted(note.read_text().splitlines()) if note.exists() else []
        note.unlink(missing_ok=True)
        return lines

    def record(self, path: str, run: str = RUN) -> Any:
        return json.loads(self.project.read(f"runs/{run}/{path}"))

    def summary(self, slot: str, run: str = RUN) -> Any:
        return self.record(f"eval/{slot}/summary.json", run)

    def why(self, slot: str, run: str = RUN) -> str:
        """Why it was not promoted, or to which node it was."""
        decided = self.record(f"depths/{slot[1]}/promoted.json", run)["decisions"][slot]
        return str(decided["promoted_to_node_id"] or decided["why"])

    def stop(self, depth: int, run: str = RUN) -> str | None:
        found: str | None = self.record(f"depths/{depth}/promoted.json", run)["stop_reason"]
        return found


def command(line: str, reads: Any, **more: Any) -> dict[str, Any]:
    return {"run": line, "reads": reads, "env": {"LIST": "{project}/list"}, **more}


def by_config(configs: Any) -> dict[str, Any]:
    return command("sh {in} {results} {config_id} {n}", "row.sh", mode="per_config", configs=configs)


def agent(role: str, **keys: Any) -> dict[str, Any]:
    return {"backend": "command", "run": ["sh", "{project}/agent.sh", "{project}", role], **keys}


TESTED = {"tests": command("sh {in}", "tests.sh")}


def told(said: Said, word: str) -> list[str]:
    """Of which targets of the run it was said, `word` being built or recalled: names without that of the run."""
    lines = (line.split() for line in said.out.splitlines())
    return sorted(words[1].partition(":")[2] for words in lines if words[:1] == [word])


def stage(names: Iterable[str], *stages: str) -> list[str]:
    return [name for name in names if name.rpartition(".")[2] in stages or name in stages]


def files(folder: Path, *patterns: str) -> dict[str, bytes]:
    found = (path for pattern in patterns for path in sorted(folder.glob(pattern)) if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


DECIDED = ("depths/*/assigned.json", "depths/*/promoted.json", "nodes/**/*.json", "artifacts/*", "eval/*/summary.json")
DECIDED += ("eval/*/candidate.json", "eval/*/sweep.json", "node_ideas/*/*.md")


def decided(search: Search) -> dict[str, bytes]:
    """All that a search decides.  Seconds are told beside it; they are different each time."""
    found = {path: text for path, text in files(search.root / "runs/x", *DECIDED).items() if "cost" not in path}
    return {
        path: without_seconds(text) if path.startswith(("depths/", "nodes/")) else text for path, text in found.items()
    }


def without_seconds(text: bytes) -> bytes:
    """The last of what an evaluation has spent: evaluations, USD, tokens, seconds."""
    record = json.loads(text)
    for amounts in record.get("spent", {}).values():
        amounts[3] = "seconds"
    return json.dumps(record, sort_keys=True).encode()
