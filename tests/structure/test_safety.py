"""What must stand nowhere: unsafe calls, unfinished code, names of machines and of places that differ for everyone."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]
LONGEST_FILE = 400  # lines
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|NotImplementedError)\b")

# A letter in brackets keeps each pattern from matching the line that it stands on.
FORBIDDEN = {
    "a path of one machine": r"(?<![\w.>/-])/(?:wor[k]|far[m]|tmp/t[w])/",
    "a word of how it was made": r"(?i)sub[-]?agent|helper[ ]session|\bF[L]-\d",
    "a folder beside the repository": r"\.\./share[d]",
    "the host of a package registry": r"pypi[.]org|files[.]pythonhosted|npmjs[.]|deb[.]debian",
}


def lines_of(files: list[Path]) -> Iterator[tuple[str, str]]:
    """Place and text of every line of the text files among these."""
    for file in files:
        try:
            text = file.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            yield f"{file.relative_to(REPO)}:{number}", line


@pytest.mark.parametrize("what", FORBIDDEN)
def test_no_file_names(tree, what):
    pattern = re.compile(FORBIDDEN[what])
    assert [f"{place} {line.strip()[:80]}" for place, line in lines_of(tree) if pattern.search(line)] == []


def test_no_file_is_unfinished(tree):
    package = [file for file in tree if file.is_relative_to(REPO / "src")]
    assert [place for place, line in lines_of(package) if UNFINISHED.search(line)] == []


def test_no_file_of_the_package_is_long(tree):
    package = [file for file in tree if file.is_relative_to(REPO / "src") and file.suffix == ".py"]
    lengths = {str(file.relative_to(REPO)): len(file.read_text(encoding="utf-8").splitlines()) for file in package}
    assert {name: length for name, length in lengths.items() if length > LONGEST_FILE} == {}


def test_nothing_unsafe_is_called(sources):
    assert [f"{name}:{line} {what}" for name, source in sources.items() for line, what in unsafe_calls(source)] == []


def unsafe_calls(source: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and kind of every call that runs what a file holds, or a shell."""
    for node in ast.walk(source):
        if isinstance(node, ast.Call):
            what = problem_of(node)
            if what:
                yield node.lineno, what


def problem_of(call: ast.Call) -> str:
    name = ast.unparse(call.func)
    options = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}
    if (name.split(".")[-1] in ("eval", "exec") and "." not in name) or name == "os.system":
        return name
    if re.search(r"\b(pickle|dill|joblib|cloudpickle)\.(load|loads|Unpickler)$", name):
        return name
    if name == "torch.load" and options.get("weights_only") != "True":
        return "torch.load without weights_only=True"
    if re.fullmatch(r"(np|numpy)\.load", name) and options.get("allow_pickle", "False") != "False":
        return "numpy.load with pickles"
    if name in ("yaml.load", "yaml.unsafe_load", "yaml.full_load") and "Safe" not in ast.unparse(call):
        return name
    if options.get("trust_remote_code") == "True":
        return "remote code"
    return "a shell" if options.get("shell") == "True" else ""


@pytest.mark.parametrize(
    "text",
    [
        "pickle.load(file)",
        "torch.load(path)",
        "torch.load(path, weights_only=False)",
        "yaml.load(text, Loader=yaml.Loader)",
        "AutoModel.from_pretrained(name, trust_remote_code=True)",
        "subprocess.run(line, shell=True)",
        "numpy.load(path, allow_pickle=True)",
        "eval(text)",
        "os.system(line)",
    ],
)
def test_an_unsafe_call_would_be_seen(text):
    assert list(unsafe_calls(ast.parse(text)))


@pytest.mark.parametrize(
    "text",
    [
        "torch.load(path, weights_only=True)",
        "yaml.safe_load(text)",
        "yaml.load(text, Loader=StrictSafeLoader)",
        "model.eval()",
        "json.load(file)",
        "subprocess.run(['ls'])",
    ],
)
def test_a_safe_call_is_none_of_them(text):
    assert not list(unsafe_calls(ast.parse(text)))


@pytest.mark.parametrize(
    ("what", "line"),
    [
        ("a path of one machine", "open('/{}/data.csv')".format("work")),
        ("a word of how it was made", "see {}-07".format("FL")),
        ("a folder beside the repository", "../{}/data".format("shared")),
        ("the host of a package registry", "https://{}.org/simple".format("pypi")),
    ],
)
def test_a_forbidden_name_would_be_seen(what, line):
    assert re.search(FORBIDDEN[what], line)


def test_every_part_of_the_repository_is_there():
    names = ["LICENSE", "CHANGELOG.md", "CONTRIBUTING.md", "Makefile", "constraints.txt", ".ci/run", "docs/install.md"]
    assert [name for name in names if not (REPO / name).read_text(encoding="utf-8").strip()] == []
    assert (REPO / ".ci" / "run").stat().st_mode & 0o111
