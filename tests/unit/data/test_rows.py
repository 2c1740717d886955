from trainwright.data.rows import read_rows


def test_what_is_kept_of_each_row(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("text,label\ngood,pos\n  ,neg\ngood,neg\n\ufffd!,pos\n,pos\n", encoding="utf-8")
    texts = []
    table = read_rows(path, "text", "label", texts.extend)
    assert texts == ["good", "  ", "good", "\ufffd!", ""]
    assert table.lines.tolist() == [2, 3, 4, 5, 6]
    assert table.codes.tolist() == [0, 1, 1, 0, 0]
    assert table.names == ["pos", "neg"]
    assert table.characters.tolist() == [4, 2, 4, 2, 0]
    assert table.blank.tolist() == [False, True, False, False, True]
    assert (table.replaced_rows, table.replaced) == (1, [5])


def test_equal_texts_have_equal_hashes_and_other_texts_have_others(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("text,label\n" + "".join(f"text {n % 700},a\n" for n in range(1000)), encoding="utf-8")
    hashes = read_rows(path, "text", "label", lambda texts: None).hashes.tolist()
    assert hashes[:300] == hashes[700:]
    assert len(set(hashes)) == 700


def test_more_rows_than_one_batch_keep_their_order(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("text,label\n" + "".join(f"{n},{n % 3}\n" for n in range(10_000)), encoding="utf-8")
    texts = []
    table = read_rows(path, "text", "label", texts.extend)
    assert texts == [str(n) for n in range(10_000)]
    assert table.lines.tolist() == list(range(2, 10_002))


def test_only_a_span_whose_lines_end_in_known_labels_stays_doubtful(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('text,label\n"one,pos\ntwo",pos\n"Dear sir,\n how are you",pos\nx,neg\n', encoding="utf-8")
    noticed = read_rows(path, "text", "label", lambda texts: None).noticed
    assert noticed.spanning == 2
    assert [(span.first, span.last) for span in noticed.doubtful] == [(2, 3)]
