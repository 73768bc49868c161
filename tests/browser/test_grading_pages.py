"""The grader's pages in a real browser: what a student wrote is shown, and nothing of it runs."""

import pytest
from chromium import open_browser, screenshot

from course_lib.grading.class_page import class_page
from course_lib.grading.feedback import feedback
from course_lib.grading.grade import Grade
from course_lib.grading.rows import Row

HARM = "document.title = 'harmed'"
HOSTILE = f'<script>{HARM}</script></pre></td><img src=x onerror="{HARM}"><svg onload="{HARM}"> ]]> \u202egnp.exe'


@pytest.fixture(scope="module")
def page():
    with open_browser() as browser:
        yield browser.new_page(viewport={"width": 1000, "height": 900})


def grade(text):
    row = Row(
        id="01.1", title=text, kind="write", outcome="not yet", judge="numbers", message=text, next=text, note=text,
        verdict=f"01.1 not yet: {text}\n{text}\nNext: {text}", points=0, max_points=1,
    )  # fmt: skip
    passed = Row(id="01.2", title="Right", kind="write", outcome="passed", points=1, max_points=1)
    return Grade(file=f"{text.replace('/', '')}.ipynb", lesson="01_hello_kernel", rows=(row, passed))


@pytest.mark.parametrize("name, make", [("feedback", feedback), ("class", lambda grade: class_page([grade]))])
def test_hostile_text_is_shown_and_does_nothing(page, tmp_path, name, make):
    said = []
    page.on("console", lambda message: said.append(message.text))
    (tmp_path / "page.html").write_text(make(grade(HOSTILE)))
    page.goto((tmp_path / "page.html").as_uri())
    assert "harmed" not in page.title() or page.title().startswith("<script>")
    assert page.evaluate("document.querySelectorAll('script, img, svg, iframe, form').length") == 0
    assert "<script>document.title" in page.locator("body").inner_text()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "wider than the window"
    screenshot(page, f"grading-{name}")
    assert said == []


def test_the_page_itself_forbids_scripts(page, tmp_path):
    """Even if a text should slip through unescaped."""
    text = feedback(grade("x")).replace("</body>", f'<script>{HARM}</script><img src=x onerror="{HARM}"></body>')
    (tmp_path / "page.html").write_text(text)
    page.goto((tmp_path / "page.html").as_uri())
    page.wait_for_load_state("load")
    assert page.evaluate("document.scripts.length") == 1
    assert page.title().startswith("x.ipynb: 1 of 2 points")
