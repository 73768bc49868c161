"""The times on an H100 that lesson 17 quotes are those of docs/results.md."""

from lesson_files import ROOT, code_cells

CELL = next(cell.source for cell in code_cells("notebooks/src", "17_other_engines") if "MEASURED = {" in cell.source)
ROWS = {
    "softmax of f32[8192, 4096]": ("softmax", "8192 x 4096"),
    "matmul of bf16[4096, 4096]": ("matmul", "4096 x 4096 x 4096"),
}


def test_the_quoted_times_are_those_of_the_results():
    exec(CELL[CELL.index("MEASURED = {") : CELL.index("h100 =")], said := {})
    section = (ROOT / "docs/results.md").read_text().partition("### NVIDIA H100 80GB HBM3")[2]
    rows = [[field.strip() for field in line.split("|")[1:-1]] for line in section.splitlines() if " us ± " in line]
    assert set(said["MEASURED"]) == set(ROWS)
    for name, times in said["MEASURED"].items():
        (row,) = (row for row in rows if tuple(row[:2]) == ROWS[name])
        assert tuple(float(field.partition(" us")[0].replace(",", "")) for field in row[3:6]) == times
    (copy,) = (row for row in rows if row[0] == "copy")
    assert copy[4].startswith("89.6 us")
