import numpy as np

from trainwright.data import build
from trainwright.data.build import BATCH_CHARACTERS, BATCH_ROWS
from trainwright.records import write_json


def sizes(characters):
    return [part.stop - part.start for part in build._slices(np.array(characters))]


def test_batches_end_by_number_of_rows():
    assert sizes([1] * (2 * BATCH_ROWS + 5)) == [BATCH_ROWS, BATCH_ROWS, 5]


def test_batches_of_long_texts_end_by_size_and_a_giant_is_alone():
    half = BATCH_CHARACTERS // 2
    assert sizes([half, half, half, 3 * half, 1, 1]) == [2, 1, 1, 2]
    assert sizes([]) == []
    assert sizes([0, 0, 0]) == [3]


def whole_set(folder, content):
    folder.mkdir()
    (folder / "train.arrow").write_bytes(content)
    write_json(folder / "identity.json", {"sizes": {"train.arrow": len(content)}})
    return folder


def test_a_set_that_another_process_put_in_place_first_is_kept(tmp_path):
    theirs, ours = whole_set(tmp_path / "key", b"theirs"), whole_set(tmp_path / ".key", b"ours!!")
    build._put_in_place(ours, theirs)
    assert (theirs / "train.arrow").read_bytes() == b"theirs"


def test_a_damaged_set_is_replaced(tmp_path):
    damaged, ours = whole_set(tmp_path / "key", b"damaged"), whole_set(tmp_path / ".key", b"ours")
    (damaged / "train.arrow").write_bytes(b"dam")
    build._put_in_place(ours, damaged)
    assert (damaged / "train.arrow").read_bytes() == b"ours"


def test_only_what_ended_processes_left_is_swept(tmp_path, monkeypatch):
    monkeypatch.setattr(build.socket, "gethostname", lambda: "here")
    alive, ended, elsewhere = f".key.here.{build.os.getpid()}", f".key.here.{2**22 + 7}", ".key.there.1234567"
    for name in (alive, ended, elsewhere, "key"):
        (tmp_path / name).mkdir()
    build._sweep(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {alive, elsewhere, "key"}
