import re

import trainwright


def test_the_public_names_are_those_that_the_package_explains():
    explained = re.findall(r"^    (\w+) {2,}\S", trainwright.__doc__, re.MULTILINE)
    assert explained
    assert sorted(explained) == trainwright.__all__ == sorted(trainwright.__all__)


def test_the_architecture_names_them_too(repo):
    text = (repo / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert [name for name in trainwright.__all__ if f"`{name}`" not in text] == []


def test_each_public_name_can_be_imported():
    for name in trainwright.__all__:
        assert getattr(trainwright, name).__name__ == name
        assert name in dir(trainwright)


def test_an_unknown_name_is_answered_as_python_does():
    assert not hasattr(trainwright, "Trainr")


def test_the_version_is_the_one_of_the_project_and_of_the_changelog(repo):
    project = re.search(r'^version = "(.+)"$', (repo / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE)
    newest = re.search(r"^## \[?(\d+\.\d+\.\d+)", (repo / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert project
    assert newest
    assert trainwright.__version__ == project[1] == newest[1]
