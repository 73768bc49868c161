"""A grade as a table for the terminal, as JSON and as JUnit XML, and all its report files."""

import dataclasses
import json
import pathlib
import shutil
import textwrap
import xml.etree.ElementTree as ET

from course_lib.grading.feedback import feedback
from course_lib.grading.folder import ENDINGS
from course_lib.grading.grade import Grade, versions
from course_lib.grading.rows import ERROR, PASSED

FORMAT = 4  # of the JSON; docs/grading.md describes it


def table(grade: Grade) -> str:
    """Return the rows of a grade, aligned and wrapped to the width of the terminal."""
    note = f"\n  Note: {grade.note}." if grade.note else ""
    if grade.error:
        return f"{grade.file}: not graded. {grade.error[:1].upper()}{grade.error[1:]}{note}"
    lines = [f"{grade.file}: {grade.result}{note}"]
    weighted = any(row.weight != 1 for row in grade.rows)
    width = max(shutil.get_terminal_size((120, 24)).columns, 80)
    for row in grade.rows:
        weight = f"{f'x{row.weight:g}':<5}  " if weighted else ""
        start = f"  {row.id}  {row.outcome:<13}  {row.points}/{row.max_points}  {weight}"
        text = " ".join(row.message.split()) + (f" (Note: {row.note}.)" if row.note else "")
        lines.append(textwrap.fill(text, width, initial_indent=start, subsequent_indent=" " * len(start)))
    return "\n".join(lines)


def as_json(grade: Grade) -> str:
    """Return the grade as JSON, in the format that docs/grading.md describes."""
    data = {
        "format": FORMAT,
        "file": grade.file,
        "lesson": grade.lesson,
        "error": grade.error,
        "note": grade.note,
        "points": grade.points,
        "max_points": grade.max_points,
        "percent": grade.percent,
        "passed": grade.passed,
        "exercises": [dataclasses.asdict(row) for row in grade.rows],
        "versions": versions(),
    }
    return json.dumps(data, indent=1) + "\n"


def as_junit(grade: Grade) -> str:
    """Return the grade as JUnit XML, with a test case per exercise; any that has not passed is a failure."""
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


def write(grade: Grade, out: pathlib.Path) -> None:
    """Write OUT/<name>.json, .xml and .html, in the same subfolder as the notebook."""
    stem = out / grade.file.removesuffix(".ipynb")
    stem.parent.mkdir(parents=True, exist_ok=True)
    for ending, text in zip(ENDINGS, (as_json(grade), as_junit(grade), feedback(grade)), strict=True):
        stem.with_name(stem.name + ending).write_text(text, encoding="utf-8")
