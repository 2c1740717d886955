"""Random tables written in every way that tools write them, and read back the same.

A few hundred at each run of the tests; with TRAINWRIGHT_TABLES=1000 as many of each kind.
"""

import csv
import gzip
import io
import json
import os

import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trainwright.data.cells import Boolean, Number
from trainwright.data.sources import open_source

TABLES = int(os.environ.get("TRAINWRIGHT_TABLES", "100"))
many = settings(max_examples=TABLES, deadline=None, suppress_health_check=list(HealthCheck))
FOUND = ("utf-8", "utf-8-sig", "utf-16", "utf-32")  # by their bytes alone, whatever the text is
NAMED = ("gb18030", "big5", "latin-1", "shift_jis", "utf-16-le")
ONE_WAY = "¥‾"  # Python writes them in Shift JIS, and reads others back
# What has broken readers before, beside any other character.
HARD = [
    '"',
    '""',
    "'",
    ",",
    ";",
    "\t",
    "\n",
    "\r",
    "\r\n",
    "\\",
    "\\n",
    "#",
    "NA",
    "null",
    "007",
    "3.50",
    " ",
    "\u3000",
]
HARD += ["\u2028", "\x85", "\x0b", "\x00", "\ufeff", "𠮷", "，", "[", "{", "=1+1"]


def texts(codec):
    """Texts of any characters that an encoding has; no lone surrogates, since no file can hold them."""
    any_character = st.text(st.characters(codec=codec, exclude_characters=ONE_WAY), max_size=12)
    hard = st.sampled_from([piece for piece in HARD if can(piece, codec)])
    return st.lists(st.one_of(any_character, hard), max_size=5).map("".join)


def can(text, codec):
    try:
        return text.encode(codec).decode(codec) == text
    except UnicodeEncodeError:
        return False


@st.composite
def tables(draw, codecs=FOUND + NAMED):
    """An encoding, and rows of three columns of text: the wanted ones are the first and the last."""
    codec = draw(st.sampled_from(codecs))
    cell = texts(codec.removesuffix("-sig"))
    return codec, draw(st.lists(st.tuples(cell, cell, cell), min_size=1, max_size=8))


def read(path, encoding="auto", columns=("text", "label")):
    batches = list(open_source(path, encoding).batches(list(columns)))
    return list(zip(*([c for batch in batches for c in batch.columns[name]] for name in columns), strict=True))


def write(folder, name, data):
    """Write bytes, compressed as the name says."""
    path = folder / name
    if name.endswith(".gz"):
        data = gzip.compress(data)
    elif name.endswith(".zst"):
        data = pa.compress(data, codec="zstd", asbytes=True)
    path.write_bytes(data)
    return path


compressed = st.sampled_from(["", ".gz", ".zst"])


@many
@given(
    table=tables(),
    delimiter=st.sampled_from(",;\t"),
    ends=st.sampled_from(["\n", "\r\n", "\r"]),
    minimal=st.booleans(),
    blank=st.integers(0, 2),
    packed=compressed,
)
def test_a_csv_file_comes_back(tmp_path_factory, table, delimiter, ends, minimal, blank, packed):
    codec, rows = table
    if minimal:  # Python quotes a line break only where it is the one that ends lines
        ends = "\r\n"
    quoting = csv.QUOTE_MINIMAL if minimal else csv.QUOTE_ALL
    written = io.StringIO()
    writer = csv.writer(written, delimiter=delimiter, quoting=quoting, lineterminator=ends)
    writer.writerow(("text", "id", "label"))
    for row in rows:
        writer.writerow(row)
        written.write(ends * blank)
    data = written.getvalue().encode(codec)
    path = write(tmp_path_factory.mktemp("table"), f"a.csv{packed}", data)
    assert read(path, "auto" if codec in FOUND else codec) == [(text, label) for text, _id, label in rows]


@many
@given(table=tables(), packed=compressed)
def test_a_tsv_file_comes_back(tmp_path_factory, table, packed):
    # A text with tab and line break in it may look like rows between quote marks, which are then plain by intent.
    codec, rows = table
    rows = [tuple(cell.replace("\n", " ").replace("\r", " ") for cell in row) for row in rows]
    written = io.StringIO()
    csv.writer(written, delimiter="\t").writerows([("text", "id", "label"), *rows])
    path = write(tmp_path_factory.mktemp("table"), f"a.tsv{packed}", written.getvalue().encode(codec))
    assert read(path, "auto" if codec in FOUND else codec) == [(text, label) for text, _id, label in rows]


values = st.one_of(
    texts("utf-8"),
    st.integers(-(10**30), 10**30),
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
    st.none(),
)


def expected(value):
    """The cell of a JSON value, and its kind: numbers as they stand in the file."""
    if value is None or isinstance(value, str):
        return type(value), value
    return (Boolean if isinstance(value, bool) else Number), json.dumps(value)


@many
@given(
    codec=st.sampled_from(FOUND),
    rows=st.lists(st.fixed_dictionaries({"text": values, "label": values}, optional={"more": values}), min_size=1),
    plain=st.booleans(),
    array=st.booleans(),
    indent=st.sampled_from([None, 0, 2]),
    blank=st.integers(0, 2),
    packed=compressed,
)
def test_json_comes_back_with_its_kinds(tmp_path_factory, codec, rows, plain, array, indent, blank, packed):
    dump = {"ensure_ascii": not plain}
    text = "".join(json.dumps(row, **dump) + "\n" * (1 + blank) for row in rows)
    if array:
        text = "\n" * blank + json.dumps(rows, indent=indent, **dump)
    path = write(tmp_path_factory.mktemp("table"), f"a.json{packed}", text.encode(codec))
    assert [[(type(cell), cell) for cell in row] for row in read(path)] == [
        [expected(row["text"]), expected(row["label"])] for row in rows
    ]


@many
@given(table=tables(codecs=("utf-8",)), kind=st.sampled_from(["parquet", "arrow", "stream", "feather"]))
def test_columns_of_arrow_come_back(tmp_path_factory, table, kind):
    rows = table[1]
    path = tmp_path_factory.mktemp("table") / f"a.{kind.replace('stream', 'arrow')}"
    columns = pa.table(dict(zip(("text", "id", "label"), map(list, zip(*rows, strict=True)), strict=True)))
    if kind == "parquet":
        pq.write_table(columns, path, row_group_size=3)
    elif kind == "feather":
        feather.write_feather(columns, str(path), chunksize=2)
    else:
        make = pa.ipc.new_stream if kind == "stream" else pa.ipc.new_file
        with pa.OSFile(str(path), "wb") as file, make(file, columns.schema) as writer:
            writer.write_table(columns, max_chunksize=3)
    assert read(path) == [(text, label) for text, _id, label in rows]


# Excel itself writes no other control characters, ends lines inside a cell with "\n", and takes = for a formula.
in_a_cell = texts("utf-8").map(lambda text: "".join(c for c in text if c >= " " or c in "\t\n").lstrip("="))
in_a_cell = in_a_cell.filter(lambda text: "\ufffe" not in text and "\uffff" not in text and "_x" not in text)


@settings(parent=many, max_examples=max(20, TABLES // 5))
@given(rows=st.lists(st.tuples(in_a_cell, st.one_of(in_a_cell, st.integers(-9999, 9999))), min_size=1, max_size=6))
def test_a_workbook_comes_back(tmp_path_factory, rows):
    import openpyxl

    path = tmp_path_factory.mktemp("table") / "a.xlsx"
    book = openpyxl.Workbook()
    for row in [("text", "label"), *rows]:
        book.active.append(row)
    book.save(path)
    # A row of empty cells is no row there, and an empty cell holds nothing.
    wanted = [(text or None, str(label) or None) for text, label in rows if text or label != ""]
    assert read(path) == wanted
