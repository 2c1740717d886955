import json
import math

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from trainwright.data.cells import Boolean, Number
from trainwright.data.sources import open_source
from trainwright.errors import DataError


def parquet(path, **columns):
    pq.write_table(pa.table(columns), path)
    return path


def read(path, column):
    batches = list(open_source(path).batches([column]))
    return [cell for batch in batches for cell in batch.columns[column]], [n for batch in batches for n in batch.lines]


def save_to_disk(folder, shards, metadata=None):
    """What datasets.Dataset.save_to_disk writes, as far as rows are concerned."""
    folder.mkdir(parents=True)
    names = [f"data-{n:05}-of-{len(shards):05}.arrow" for n in range(len(shards))]
    for name, table in zip(names, shards, strict=True):
        table = table.replace_schema_metadata(metadata)
        with pa.OSFile(str(folder / name), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
            writer.write_table(table)
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": name} for name in names]}))
    return folder


def test_values_of_a_parquet_file_are_exact_text_with_their_kind(tmp_path):
    path = parquet(
        tmp_path / "a.parquet", text=["007", "NA", None], label=[1.0, math.nan, 2.5], flag=[True, False, None]
    )
    assert read(path, "text") == (["007", "NA", None], [1, 2, 3])
    assert read(path, "label")[0] == ["1.0", None, "2.5"]  # pandas writes a missing number as not-a-number
    assert isinstance(read(path, "label")[0][0], Number)
    assert read(path, "flag")[0] == ["true", "false", None]
    assert isinstance(read(path, "flag")[0][0], Boolean)


def test_columns_of_lists_are_refused(tmp_path):
    with pytest.raises(DataError, match="column 'text' holds list"):
        read(parquet(tmp_path / "a.parquet", text=[["a"], ["b"]]), "text")


def test_what_is_no_parquet_file_is_refused(tmp_path):
    (tmp_path / "a.parquet").write_text("text,label\n")
    with pytest.raises(DataError, match=r"a\.parquet cannot be read"):
        open_source(tmp_path / "a.parquet")


def test_rows_of_a_datasets_folder_are_numbered_across_its_files(tmp_path):
    shards = [pa.table({"text": ["a", "b"]}), pa.table({"text": ["c"]})]
    assert read(save_to_disk(tmp_path / "set", shards), "text") == (["a", "b", "c"], [1, 2, 3])


def test_class_labels_are_read_by_name_and_minus_one_as_none(tmp_path):
    feature = {"names": ["neg", "pos"], "_type": "ClassLabel"}
    metadata = {"huggingface": json.dumps({"info": {"features": {"label": feature}}})}
    folder = save_to_disk(tmp_path / "set", [pa.table({"label": [1, 0, -1]})], metadata)
    assert read(folder, "label")[0] == ["pos", "neg", None]


def test_a_missing_file_of_a_datasets_folder_is_named(tmp_path):
    folder = save_to_disk(tmp_path / "set", [pa.table({"text": ["a"]})])
    (folder / "data-00000-of-00001.arrow").unlink()
    with pytest.raises(DataError, match="lacks its file data-00000"):
        open_source(folder)


def test_a_folder_that_datasets_itself_saved_is_read(tmp_path):
    datasets = pytest.importorskip("datasets")
    datasets.disable_progress_bars()
    features = datasets.Features({"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["neg", "pos"])})
    saved = datasets.Dataset.from_dict({"text": ["a", "b", "c"], "label": [0, 1, 1]}, features=features)
    saved.select([2, 0]).save_to_disk(tmp_path / "set")
    assert read(tmp_path / "set", "text")[0] == ["c", "a"]
    assert read(tmp_path / "set", "label")[0] == ["pos", "neg"]


def test_lists_of_class_labels_become_lists_of_names(tmp_path):
    feature = {"feature": {"names": ["O", "B-PER"], "_type": "ClassLabel"}, "_type": "Sequence"}
    written = {"huggingface": json.dumps({"info": {"features": {"tags": feature}}})}
    save_to_disk(tmp_path / "saved", [pa.table({"tags": [[0, 1], []]})], written)
    (batch,) = open_source(tmp_path / "saved").batches(["tags"], lists=["tags"])
    assert [cell.values() for cell in batch.columns["tags"]] == [["O", "B-PER"], []]
