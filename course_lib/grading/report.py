"""A grade as a table on the terminal, as JSON, as JUnit XML, and several as CSV."""

import csv
import dataclasses
import io
import json
import pathlib
import shutil
import textwrap
import xml.etree.ElementTree as ET

from course_lib.grading.grade import Grade, versions
from course_lib.grading.verdict import ERROR, PASSED

FORMAT = 1  # of the JSON; docs/grading.md describes it


def table(grade: Grade) -> str:
    """The rows of a grade, aligned, wrapped to the width of the terminal."""
    if grade.error:
        return f"{grade.file}: not graded. {grade.error[:1].upper()}{grade.error[1:]}"
    lines = [f"{grade.file}: {grade.points} of {grade.max_points} points"]
    width = max(shutil.get_terminal_size((120, 24)).columns, 80)
    for row in grade.rows:
        start = f"  {row.id}  {row.outcome:<13}  {row.points}/{row.max_points}  "
        text = " ".join(row.message.split()) + (f" (Note: {row.note}.)" if row.note else "")
        lines.append(textwrap.fill(text, width, initial_indent=start, subsequent_indent=" " * len(start)))
    return "\n".join(lines)


def as_json(grade: Grade) -> str:
    """The grade as JSON, as docs/grading.md describes it."""
    data = {
        "format": FORMAT,
        "file": grade.file,
        "error": grade.error,
        "points": grade.points,
        "max_points": grade.max_points,
        "passed": grade.passed,
        "exercises": [dataclasses.asdict(row) for row in grade.rows],
        "versions": versions(),
    }
    return json.dumps(data, indent=1) + "\n"


def as_junit(grade: Grade) -> str:
    """The grade as JUnit XML: a test case for each exercise; what has not passed has failed."""
    failures = sum(row.outcome not in (PASSED, ERROR) for row in grade.rows)
    errors = sum(row.outcome == ERROR for row in grade.rows) + bool(grade.error)
    counts = {"tests": str(len(grade.rows) or 1), "failures": str(failures), "errors": str(errors)}
    suites = ET.Element("testsuites", counts)
    suite = ET.SubElement(suites, "testsuite", {"name": grade.file, **counts})
    for row in grade.rows:
        case = ET.SubElement(suite, "testcase", {"classname": grade.file, "name": f"{row.id} {row.title}".strip()})
        if row.outcome != PASSED:
            message = f"{row.outcome}: {row.message}"
            child = ET.SubElement(case, "error" if row.outcome == ERROR else "failure", {"message": message})
            child.text = row.verdict or message
    if grade.error:
        case = ET.SubElement(suite, "testcase", {"classname": grade.file, "name": "notebook"})
        ET.SubElement(case, "error", {"message": grade.error})
    ET.indent(suites)
    return ET.tostring(suites, encoding="utf-8", xml_declaration=True).decode() + "\n"


def as_csv(grades: list[Grade]) -> str:
    """A line for each notebook: file, points, max_points, an outcome for each exercise, error."""
    ids = sorted({row.id for grade in grades for row in grade.rows})
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(["file", "points", "max_points", *ids, "error"])
    for grade in grades:
        outcomes = {row.id: row.outcome for row in grade.rows}
        cells = [
            grade.file,
            grade.points,
            grade.max_points,
            *(outcomes.get(id, "") for id in ids),
            grade.error,
        ]
        lines.writerow([_no_formula(cell) for cell in cells])
    return text.getvalue()


def write(grade: Grade, out: pathlib.Path) -> None:
    """Write OUT/<name>.json and OUT/<name>.xml; a notebook of a folder goes into such a folder."""
    stem = out / grade.file.removesuffix(".ipynb")
    stem.parent.mkdir(parents=True, exist_ok=True)
    stem.with_name(stem.name + ".json").write_text(as_json(grade), encoding="utf-8")
    stem.with_name(stem.name + ".xml").write_text(as_junit(grade), encoding="utf-8")


def _no_formula(cell):
    """A text that a spreadsheet would compute, as a text."""
    return "'" + cell if isinstance(cell, str) and cell[:1] in ("=", "+", "-", "@") else cell
