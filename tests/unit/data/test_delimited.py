import csv

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainwright.data import delimited
from trainwright.data.sources import open_source
from trainwright.errors import DataError


def write(path, content, encoding="utf-8"):
    path.write_bytes(content.encode(encoding))
    return path


def rows_of(path, columns=("text", "label")):
    """(line, cells...) of every row."""
    source = open_source(path)
    found = []
    for batch in source.batches(list(columns)):
        found += list(zip(batch.lines, *(batch.columns[name] for name in columns), strict=True))
    return found, source.noticed


def test_texts_survive_byte_for_byte_whatever_they_look_like(tmp_path):
    texts = ["007", "12", "3.50", "null", "NA", "None", "nan", "", "  ", " ok ", "1e5", "TRUE"]
    path = write(tmp_path / "a.csv", "text,label\n" + "".join(f"{text},x\n" for text in texts))
    assert [row[1] for row in rows_of(path)[0]] == texts


def test_the_line_of_a_row_is_where_its_record_starts(tmp_path):
    path = write(tmp_path / "a.csv", 'text,label\none,a\n"two\nlines\r\nmore",b\nlast,a\n')
    assert rows_of(path)[0] == [(2, "one", "a"), (3, "two\nlines\r\nmore", "b"), (6, "last", "a")]


def test_a_byte_order_mark_is_read_as_if_it_were_not_there(tmp_path):
    path = write(tmp_path / "a.csv", "text,label\n你好,a\n", "utf-8-sig")
    assert open_source(path).columns() == ["text", "label"]
    assert rows_of(path)[0] == [(2, "你好", "a")]


def test_a_field_of_200000_characters_is_read_whole(tmp_path):
    path = write(tmp_path / "a.csv", f"text,label\n{'x' * 200_000},a\n")
    assert len(rows_of(path)[0][0][1]) == 200_000


def test_characters_that_other_readers_take_for_line_ends_stay_in_the_text(tmp_path):
    path = write(tmp_path / "a.csv", "text,label\na\u2028b\x0bc\x85d,x\n")
    assert rows_of(path)[0] == [(2, "a\u2028b\x0bc\x85d", "x")]


def test_a_quote_that_is_never_closed_is_refused_at_the_line_where_it_opens(tmp_path):
    path = write(tmp_path / "a.csv", 'text,label\none,a\n"two ""quoted"" words,b\nthree,a\n')
    with pytest.raises(DataError, match=r"a\.csv, line 3: a quote is opened here and never closed"):
        rows_of(path)


def test_the_open_quote_is_found_in_the_middle_of_a_record(tmp_path):
    path = write(tmp_path / "a.csv", 'text,label\n"two\nlines","b\nthree,a\n')
    with pytest.raises(DataError, match="line 3: a quote is opened"):
        rows_of(path)


def test_text_after_a_closing_quote_is_refused_with_its_lines(tmp_path):
    path = write(tmp_path / "a.csv", 'text,label\n"he said,pos\nsecond,neg\nthird" he said,pos\n')
    with pytest.raises(DataError, match="line 2: a quote is opened here and closed in line 4, where text follows it"):
        rows_of(path)


def test_a_quote_that_stays_open_ends_long_before_memory_does(tmp_path, monkeypatch):
    monkeypatch.setattr(delimited, "LONGEST_RECORD", 10_000)
    lines = ["text,label\n", "fine,a\n", '"open,b\n', *["more,a\n"] * 100_000]
    path = write(tmp_path / "a.csv", "".join(lines))
    read = []
    monkeypatch.setattr(delimited._Remembered, "__iter__", counted(delimited._Remembered.__iter__, read))
    with pytest.raises(DataError, match="line 3: a quote is opened here and never closed"):
        rows_of(path)
    assert len(read) < 2_000


def counted(lines, read):
    def iterate(self):
        for line in lines(self):
            read.append(line)
            yield line

    return iterate


def test_a_quote_that_swallows_rows_is_doubtful_and_a_text_of_two_lines_is_not(tmp_path):
    swallowed = write(tmp_path / "a.csv", 'text,label\n"he said,pos\nsecond,neg\nthird",pos\nfourth,neg\n')
    rows, noticed = rows_of(swallowed)
    assert len(rows) == 2
    assert [(span.first, span.last, span.values["label"]) for span in noticed.doubtful] == [
        (2, 4, ["pos", "neg", "pos"])
    ]
    meant = write(tmp_path / "b.csv", 'text,label\n"Hello\nthere",pos\nfourth,neg\n')
    _rows, noticed = rows_of(meant)
    assert (noticed.spanning, noticed.longest_span, noticed.doubtful) == (1, (2, 3), [])


@pytest.mark.parametrize(
    "content", ['"Great" film\tpos\n"bad\tneg\nok\tpos\n', '"Great\tpos\nbad\tneg\nfine"\tpos\nok\tneg\n']
)
def test_quotes_in_a_tsv_file_are_characters_where_reading_them_otherwise_would_lose_rows(tmp_path, content):
    path = write(tmp_path / "a.tsv", "text\tlabel\n" + content)
    rows, noticed = rows_of(path)
    assert [list(row[1:]) for row in rows] == [line.split("\t") for line in content.splitlines()]
    assert noticed.plain_quotes


def test_quotes_in_a_tsv_file_quote_where_that_works(tmp_path):
    path = write(tmp_path / "a.tsv", 'text\tlabel\n"a ""b""\tc"\tpos\n"two\nlines"\tneg\n')
    rows, noticed = rows_of(path)
    assert rows == [(2, 'a "b"\tc', "pos"), (3, "two\nlines", "neg")]
    assert not noticed.plain_quotes


@pytest.mark.parametrize("delimiter", [";", "\t"])
def test_another_delimiter_in_a_csv_file_is_found_and_told(tmp_path, delimiter):
    path = write(tmp_path / "a.csv", f"text{delimiter}label\nyes, it is{delimiter}a\n")
    rows, noticed = rows_of(path)
    assert rows == [(2, "yes, it is", "a")]
    assert noticed.delimiter == delimiter


def test_rows_with_another_number_of_fields_are_refused_with_lines_and_count(tmp_path):
    path = write(tmp_path / "a.csv", "text,label\na,b\na, with comma,b\nc\nd,e\n")
    with pytest.raises(DataError, match=r"more or fewer fields than the 2 of the header: 2 \(lines 3, 4\)"):
        rows_of(path)


def test_blank_lines_are_counted_and_no_rows(tmp_path):
    path = write(tmp_path / "a.csv", "text,label\n\na,b\n\nc,d\n\n")
    rows, noticed = rows_of(path)
    assert [row[0] for row in rows] == [3, 5]
    assert noticed.blank_lines == 3


def test_another_encoding_is_refused_with_line_and_byte(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"text,label\ngood,a\nb\xc4d,a\n")
    with pytest.raises(DataError, match=r"line 3: byte 0xc4 at offset 19 is not UTF-8.*data\.encoding: latin-1"):
        rows_of(path)


def test_two_columns_of_one_name_are_refused(tmp_path):
    path = write(tmp_path / "a.csv", "text,label,text\na,b,c\n")
    with pytest.raises(DataError, match="several columns called 'text'"):
        rows_of(path)


def test_columns_that_are_not_read_are_noticed(tmp_path):
    path = write(tmp_path / "a.csv", "id,text,label,date\n1,a,b,2\n")
    assert rows_of(path)[1].unused == ["id", "date"]


# No lone surrogates: no file can hold them.
cells = st.text(st.characters(codec="utf-8"), max_size=20)


@settings(max_examples=150, deadline=None)
@given(rows=st.lists(st.tuples(cells, cells), min_size=1, max_size=8))
def test_any_table_that_python_writes_is_read_back(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("table") / "a.csv"
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows([("text", "label"), *rows])
    assert [row[1:] for row in rows_of(path)[0]] == rows
