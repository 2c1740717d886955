from plan_memory_page import compared, errors_table, plan_memory_figure, rows_table


def row(part, error, **changed):
    plain = {"name": "01", "part": part, "architecture": "bert-4x256", "longest": 32, "rows": "even", "tokens": 1024}
    plain |= {"precision": "fp32", "recompute": False, "optimizer": "sgd", "measured": 2**30}
    return plain | {"predicted": round(2**30 * (1 + error)), "error": error} | changed


def test_errors_are_counted_for_each_half():
    rows = [row("fit", 0.01), row("fit", -0.03), row("fit", 0.02)]
    rows += [row("test", error / 100) for error in (-10, 1, 2, 3, 4)]
    table = errors_table(rows)
    assert "| fitted | 3 | 2.0% | 3.0% | -3.0% | +2.0% |" in table
    assert "| the other half | 5 | 3.0% | 10.0% | -10.0% | +4.0% |" in table


def test_every_configuration_has_a_line_and_a_dot():
    rows = [row("fit", 0.5), row("test", -0.5, recompute=True)]
    assert "| 1536 MiB | 1024 MiB | +50.0% |" in rows_table(rows)
    assert "| yes | sgd | 512 MiB |" in rows_table(rows)
    figure = plan_memory_figure(rows)
    assert figure.count("<circle") == 2
    assert 'cx="226.7"' in figure  # 1 of 1.5 GiB on 280 units, from 40


def test_the_committed_results_belong_to_configurations_that_were_written_down_before():
    rows = compared()
    assert len({row["name"] for row in rows}) == len(rows) >= 40
    assert {row["part"] for row in rows} == {"fit", "test"}
