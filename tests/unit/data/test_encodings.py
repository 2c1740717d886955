import gzip

import pytest

from trainwright.data import encodings, textfile
from trainwright.data.encodings import find_encoding
from trainwright.data.findings import audit_of
from trainwright.data.sources import open_source
from trainwright.data.textfile import first_bad_byte
from trainwright.errors import DataError

SIMPLIFIED = "text,label\n这家店的服务很好，下次还会再来。,好\n质量太差了，完全不值这个价钱！,差\n"
TRADITIONAL = "text,label\n這家店的服務很好，下次還會再來。,好\n品質太差了，完全不值這個價錢！,差\n"
FRENCH = "text,label\nC'était un très bon café à Genève,bon\nle dîner m'a déçu,mauvais\n"
RUSSIAN = "text,label\nХороший фильм и отличная игра актёров,хорошо\n"
KOREAN = "text,label\n" + "이 영화는 정말 재미있고 배우들의 연기도 훌륭합니다,긍정\n" * 20
JAPANESE = "text,label\nこの映画はとても面白くて、俳優の演技も素晴らしかったです。,良い\n"


def texts_of(path, encoding="auto"):
    return [cell for batch in open_source(path, encoding).batches(["text"]) for cell in batch.columns["text"]]


@pytest.mark.parametrize(
    ("content", "codec", "found"),
    [
        (SIMPLIFIED, "utf-8", "utf-8"),
        (SIMPLIFIED, "utf-8-sig", "utf-8"),
        (SIMPLIFIED, "utf-16", "utf-16"),
        ("\ufeff" + SIMPLIFIED, "utf-16-be", "utf-16"),
        (SIMPLIFIED, "utf-32", "utf-32"),
        (SIMPLIFIED, "gbk", "gb18030"),
        (SIMPLIFIED.replace("店", "𠮷"), "gb18030", "gb18030"),  # a character of four bytes
        (TRADITIONAL, "big5", "big5"),
        (FRENCH, "latin-1", "latin-1"),
        (FRENCH.replace("'", "’"), "cp1252", "cp1252"),
        ("text,label\nplain,a\n", "ascii", "utf-8"),
    ],
)
@pytest.mark.parametrize("ending", [".csv", ".csv.gz"])
def test_each_encoding_is_found_and_gives_the_text_back(tmp_path, content, codec, found, ending):
    path = tmp_path / f"a{ending}"
    data = content.encode(codec)
    path.write_bytes(gzip.compress(data) if ending.endswith(".gz") else data)
    assert find_encoding(path).name == found
    assert texts_of(path) == [line.split(",")[0] for line in content.splitlines()[1:]]


@pytest.mark.parametrize(
    ("content", "codec"),
    [(RUSSIAN, "cp1251"), (KOREAN, "euc-kr"), (JAPANESE, "euc-jp"), (JAPANESE, "shift_jis"), (SIMPLIFIED, "utf-16-le")],
)
def test_what_no_known_encoding_explains_is_refused_and_read_when_it_is_named(tmp_path, content, codec):
    path = tmp_path / "a.csv"
    path.write_bytes(content.encode(codec))
    with pytest.raises(DataError, match=r"is not UTF-8.*data\.encoding"):
        texts_of(path)
    assert texts_of(path, codec) == [line.split(",")[0] for line in content.splitlines()[1:]]


@pytest.mark.parametrize("codec", ["gbk", "big5", "latin-1"])
@pytest.mark.parametrize("first", [True, False])
def test_the_verdict_is_the_same_above_20_megabytes_wherever_the_odd_row_stands(tmp_path, codec, first):
    row = {"gbk": "这个很好,好\n", "big5": "這個很好,好\n", "latin-1": "très déçu à café,x\n"}[codec].encode(codec)
    plain = b"an ordinary row of plain ASCII text that goes on for a while,x\n" * 340_000
    path = tmp_path / "a.csv"
    path.write_bytes(b"text,label\n" + (row + plain if first else plain + row))
    assert path.stat().st_size > 20_000_000
    assert find_encoding(path).name == {"gbk": "gb18030"}.get(codec, codec)


def test_a_bad_byte_in_a_utf8_file_is_named_and_not_taken_for_another_encoding(tmp_path):
    line = "这家店很好,好\n".encode()
    path = tmp_path / "a.csv"
    path.write_bytes(b"text,label\n" + line * 898 + b"\xe9" + line)  # row 899, in line 900
    with pytest.raises(DataError, match=f"line 900: byte 0xe9 at offset {11 + 898 * len(line)} is not UTF-8"):
        texts_of(path)


def test_a_byte_that_an_encoding_asked_for_does_not_know_is_named(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes("text,label\n很好,a\n".encode("gb18030") + b"b\xffd,a\n")
    with pytest.raises(DataError, match=r"line 3: byte 0xff at offset 19 is not GB18030"):
        texts_of(path, "gb18030")


@pytest.mark.parametrize("codec", ["utf-8", "gb18030", "utf-16", "big5"])
@pytest.mark.parametrize("chunk", [1, 2, 3, 7, 1000])
def test_the_place_of_a_bad_byte_does_not_depend_on_how_the_file_is_read(tmp_path, monkeypatch, codec, chunk):
    good = "甲一\n乙二\n丙三\n".encode(codec)
    bad = {"utf-16": b"\x00\xdc\x41\x00"}.get(codec, b"\xff\x41")  # half a surrogate pair; a byte of no character
    path = tmp_path / "a.txt"
    path.write_bytes(good + bad + "丁\n".encode(codec.replace("16", "16-le")))
    monkeypatch.setattr(textfile, "CHUNK", chunk)
    assert first_bad_byte(path, codec) == (4, bad[0], len(good))


@pytest.mark.parametrize("chunk", [1, 2, 3, 1000])
def test_the_verdict_does_not_depend_on_how_the_file_is_read(tmp_path, monkeypatch, chunk):
    monkeypatch.setattr(encodings, "CHUNK", chunk)
    found = {}
    for codec, content in {"gbk": SIMPLIFIED, "big5": TRADITIONAL, "latin-1": FRENCH}.items():
        path = tmp_path / "a.csv"
        path.write_bytes(content.encode(codec))
        found[codec] = find_encoding(path).name
    assert found == {"gbk": "gb18030", "big5": "big5", "latin-1": "latin-1"}


def test_neighbours_are_counted_across_chunks(tmp_path, monkeypatch):
    path = tmp_path / "a.csv"
    path.write_bytes(b"a\xc4\xc4b\xc4c\xc4\xc4\xc4")  # six bytes above 127, five of them beside another
    for chunk in (1, 2, 5, 100):
        monkeypatch.setattr(encodings, "CHUNK", chunk)
        seen = encodings._look_through(path)
        assert (seen.high, seen.together) == (6, 5)


def test_a_mark_that_the_rest_contradicts_is_refused(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes("\ufefftext,label\n".encode() + b"\xc4,a\n")
    with pytest.raises(DataError, match="line 2: byte 0xc4 at offset 14 is not UTF-8"):
        texts_of(path)


@pytest.mark.parametrize(
    ("codec", "content", "severity"), [("gbk", SIMPLIFIED, "note"), ("latin-1", FRENCH, "warning")]
)
def test_the_audit_says_which_encoding_and_why(tmp_path, request_data, codec, content, severity):
    from trainwright.data.prepare import prepare

    path = tmp_path / "a.csv"
    path.write_bytes(content.encode(codec))
    audit = prepare(request_data(path), tmp_path / "cache", lambda *told: None).audit
    (finding,) = [one for one in audit.findings if one.id == "data.encoding"]
    assert finding.severity == severity
    assert finding.evidence["encoding"] == {"gbk": "gb18030"}.get(codec, codec)
    assert finding.evidence["because"] in finding.message
    assert audit_of(request_data(path), audit.facts).findings  # judged again from facts alone


def test_a_damaged_gz_file_is_refused(tmp_path):
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"text,label\n" + b"a,b\n" * 1000)[:-20])
    with pytest.raises(DataError, match=r"a\.csv\.gz cannot be read"):
        texts_of(path)
