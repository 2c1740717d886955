import pytest

from trainwright.errors import RecipeError
from trainwright.recipe.yaml_file import read_yaml


@pytest.fixture
def read(tmp_path):
    def write_and_read(content):
        path = tmp_path / "recipe.yaml"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return read_yaml(path)

    return write_and_read


def test_each_key_has_its_line(read):
    given, lines = read("# a remark\nmodel: x\n\ndata:\n  train: a.csv\nlearn: {class_weights: {pos: 2}}\n")
    assert given == {"model": "x", "data": {"train": "a.csv"}, "learn": {"class_weights": {"pos": 2}}}
    assert lines == {
        "model": 2,
        "data": 4,
        "data.train": 5,
        "learn": 6,
        "learn.class_weights": 6,
        "learn.class_weights.pos": 6,
    }


BROKEN = {
    "an open bracket": ("model: x\ndata: [1\n", r"line 3: this is not YAML"),
    "a tab": ("data:\n\ttrain: a\n", r"line 2: this is not YAML"),
    "a list": ("- model\n", "holds no keys"),
    "nothing": ("", "holds no keys"),
    "two documents": ("model: a\n---\nmodel: b\n", r"line 2: this is not YAML"),
    "a key twice": ("model: a\nmodel: b\n", r"line 2: model is given twice, first in line 1"),
    "a key of a section twice": ("data:\n  train: a\n  text: b\n  train: c\n", r"line 4: data\.train .* in line 2"),
    "an object of Python": ("model: !!python/object/apply:os.system ['true']\n", "line 1: this is not YAML"),
    "a key that is a list": ("? [a]\n: b\n", "this is not YAML"),
    "an impossible date": ("model: 2024-13-45\n", "this is not YAML"),
    "another encoding": ("model: 中文".encode("gb18030"), "not a text file in UTF-8"),
}


@pytest.mark.parametrize("case", sorted(BROKEN))
def test_a_broken_file_says_what_is_wrong_and_where(read, case):
    content, expected = BROKEN[case]
    with pytest.raises(RecipeError, match=expected):
        read(content)


def test_a_byte_order_mark_does_no_harm(read):
    assert read(b"\xef\xbb\xbfmodel: bert\n")[0] == {"model": "bert"}


def test_a_missing_file_names_one_that_looks_like_it(tmp_path):
    (tmp_path / "recipe.yaml").write_text("model: x\n")
    with pytest.raises(RecipeError, match=r"no recipe .*recepi\.yaml.*Did you mean recipe\.yaml"):
        read_yaml(tmp_path / "recepi.yaml")


def test_a_missing_folder_and_a_file_taken_for_one_are_missing_recipes(tmp_path):
    (tmp_path / "file").write_text("")
    for place in ("nowhere/recipe.yaml", "file/recipe.yaml"):
        with pytest.raises(RecipeError, match="There is no recipe"):
            read_yaml(tmp_path / place)


def test_a_folder_is_not_a_recipe(tmp_path):
    with pytest.raises(RecipeError, match="cannot be read: Is a directory"):
        read_yaml(tmp_path)


def test_a_mapping_that_holds_itself_ends(read):
    _given, lines = read("data: &d\n  train: a\n  again: *d\n")
    assert lines["data.again.again"] == 3
