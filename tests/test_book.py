"""The book: every page, link and place of a widget in it; tests/browser/test_living_book.py has it in a browser."""

import functools
import html
import json
import posixpath
import re
import sys
from html.parser import HTMLParser

import book_samples
import build_book
import nbformat
import pytest
from book import BookError, mathml, pages, site, widgets, words
from book.code import code
from book.links import Links
from building import lessons, run, widget_state
from lesson_files import LESSONS, ROOT

PUBLIC = {"repo": "owner/name", "tag": "v1"}


@functools.cache
def whole():
    """All pages of the book, with still images, which takes no execution."""
    return site.files(pages.course(), {})


@functools.cache
def sample():
    return book_samples.book()


class Reader(HTMLParser):
    """What a browser would find in a page: ids, links, what it loads, headings of the first level, pictures."""

    def __init__(self, text):
        super().__init__()
        self.ids, self.links, self.loaded, self.titles, self.nameless = [], [], [], 0, []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.ids += [found["id"]] if "id" in found else []
        self.links += [found["href"]] if tag == "a" and "href" in found else []
        self.loaded += [found[name] for name in ("src", "srcset", "poster") if name in found]
        self.loaded += [found["href"]] if tag == "link" else []
        self.titles += tag == "h1"
        self.nameless += [found] if tag == "img" and not found.get("alt") else []


@functools.cache
def read():
    return {path: Reader(text) for path, text in whole()[0].items() if path.endswith(".html")}


def test_every_lesson_exercise_and_document_has_a_page():
    wanted = {f"notebooks/{file.stem}.html" for file in ROOT.glob("notebooks/[0-9]*.ipynb")}
    wanted |= {f"exercises/{stem}.html" for stem in LESSONS}
    texts = (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"))
    wanted |= {
        re.sub(r"README$", "index", file.relative_to(ROOT).with_suffix("").as_posix()) + ".html" for file in texts
    }
    assert read().keys() == wanted and "docs/glossary.html" in wanted


def test_every_link_leads_to_a_page_of_the_book_and_a_place_on_it():
    made, copied = whole()
    broken = []
    for path, page in read().items():
        for link in (link for link in page.links if "://" not in link):
            name, _, fragment = link.partition("#")
            target = posixpath.normpath(posixpath.join(posixpath.dirname(path), name)) if name else path
            known = target in copied or target in made and (not fragment or fragment in read()[target].ids)
            broken += [] if known else [(path, link)]
    assert broken == []


def test_nothing_is_loaded_but_what_is_in_the_book():
    made, copied = whole()
    for path, page in read().items():
        for loaded in (name for name in page.loaded if not name.startswith("data:")):
            assert posixpath.normpath(posixpath.join(posixpath.dirname(path), loaded)) in {*made, *copied}, path
    assert not re.search(r"url\(|@import", made["book.css"])


def test_every_page_has_one_title_unique_ids_and_pictures_with_words():
    for path, page in read().items():
        assert (page.titles, page.nameless) == (1, []), path
        assert len(page.ids) == len(set(page.ids)), path


def test_the_menu_leads_everywhere_but_to_pages_of_single_lessons():
    links = {posixpath.normpath(link) for link in read()["index.html"].links}
    assert {path for path in read() if path not in links} <= {
        path for path in read() if path.startswith(("docs/coverage/", "docs/instructor/", "CHANGELOG"))
    }


def test_lessons_and_exercises_are_read_in_a_row():
    made = whole()[0]
    assert 'rel="next" href="../exercises/01_hello_kernel.html"' in made["notebooks/01_hello_kernel.html"]
    assert 'rel="next" href="../notebooks/02_the_machine.html"' in made["exercises/01_hello_kernel.html"]
    assert 'rel="prev" href="../notebooks/01_hello_kernel.html"' in made["exercises/01_hello_kernel.html"]
    assert 'rel="next" href="notebooks/00_start_here.html"' in made["index.html"]


def test_two_books_are_the_same():
    assert sample() == book_samples.book()


def test_a_word_of_a_lesson_leads_to_its_definition():
    page = sample()[0][book_samples.LESSON.replace(".ipynb", ".html")]
    link = re.search(r'<a href="\.\./docs/glossary\.html#word-lane" title="([^"]+)">lane</a>', page)
    assert html.unescape(link[1]).startswith("one of the")
    assert words.of_the_lessons().meaning("Lanes") == html.unescape(link[1])


def test_source_that_is_not_in_the_book_is_plain_text_until_there_is_an_address():
    course = pages.course()
    lesson, kernel = course[book_samples.LESSON], "../course_lib/kernels/norm/kernel.py"
    assert "<span>the kernel</span>" in sample()[0]["notebooks/01_hello_kernel.html"]
    public = Links(course, words.Words([]), PUBLIC)
    assert public.target(lesson, kernel) == "https://github.com/owner/name/blob/v1/course_lib/kernels/norm/kernel.py"
    assert public.target(lesson, "../course_lib/kernels").startswith("https://github.com/owner/name/tree/v1/")
    assert public.colab(lesson).endswith("/github/owner/name/blob/v1/notebooks/01_hello_kernel.ipynb")
    assert Links(course, words.Words([]), {"repo": "", "tag": ""}).colab(lesson) is None
    assert public.target(lesson, "../docs/measured.csv") == "../docs/measured.csv" and public.files == {
        "docs/measured.csv"
    }
    with pytest.raises(BookError, match="01_hello_kernel.ipynb has a link to nowhere.md, which does not exist"):
        public.target(lesson, "nowhere.md")


def test_a_link_on_the_name_of_a_file_stands_on_the_title_of_its_page():
    made = whole()[0]
    assert '<a href="glossary.html">Words</a>' in made["docs/index.html"]
    assert '<a href="docs/index.html">Find what you need</a>' in made["index.html"]


def test_code_has_colours_and_keeps_every_letter():
    shown = code("@jit\ndef f(x):\n    return x < 'a&b'  # why\n")
    assert '<span class="b">f</span>(x):\n    <span class="k">return</span> x &lt; <span class="s">\'a&amp;b' in shown
    assert html.unescape(re.sub("<[^>]+>", "", shown)) == "@jit\ndef f(x):\n    return x < 'a&b'  # why"
    assert code("a < b", "nonsense") == '<pre class="code"><code>a &lt; b</code></pre>'


def test_a_notebooks_page_says_where_to_run_it(monkeypatch):
    made = whole()[0]
    for page in ("notebooks/02_the_machine", "exercises/02_the_machine"):
        assert (
            f"<code>make lab</code> in a clone of the course, then open <code>{page}.ipynb</code>"
            in made[f"{page}.html"]
        )
        assert "colab.research" not in made[f"{page}.html"]
    monkeypatch.setattr(lessons, "address", lambda: PUBLIC)
    address = "https://colab.research.google.com/github/owner/name/blob/v1/exercises/01_hello_kernel.ipynb"
    assert f'<a href="{address}">open it in Colab</a>' in book_samples.book()[0]["exercises/01_hello_kernel.html"]


def test_pictures_from_the_network_are_words():
    notebook, state = book_samples.lesson()
    notebook.cells[0].source += "\n[![Open in Colab](https://example.com/badge.svg)](https://example.com/x)\n"
    made, _ = site.files(book_samples.course(notebook), {book_samples.LESSON: state})
    assert '<a href="https://example.com/x">Open in Colab</a>' in made["notebooks/01_hello_kernel.html"]


def test_folds():
    page = sample()[0]["notebooks/01_hello_kernel.html"]
    assert '<details class="fold"><summary>Run me first.</summary><pre class="code">' in page
    assert re.search(r'<details class="fold predicted">.*?the answer.*?</details>', page)
    assert "1 &lt; 2 &amp; so on" in page


def test_a_widget_has_its_still_its_values_and_its_script():
    made, _ = sample()
    page = made["notebooks/01_hello_kernel.html"]
    places = re.findall(
        r'data-kind="(\w+)"><div class="still">(.*?)</div><script type="application/json">(.*?)</script>', page, re.S
    )
    assert [kind for kind, _, _ in places] == ["GridPlayer", "MemoryLadder"]
    assert all('<img src="data:image/svg+xml' in still for _, still, _ in places)
    player = json.loads(places[0][2])
    assert [path for path, _ in player["buffers"]] == [["frames"]] and player["values"]["step"] == 0
    assert not [name for _, _, data in places for name in json.loads(data)["values"] if name.startswith("_")]
    assert {path for path in made if path.startswith("widgets/")} == {
        "widgets/GridPlayer.js",
        "widgets/MemoryLadder.js",
    }
    assert '<script src="../widgets/GridPlayer.js"></script>' in page and "widgets/" not in made["docs/zoo.html"]


def test_without_their_state_widgets_are_still_images():
    page = book_samples.book(states=False)[0]["notebooks/01_hello_kernel.html"]
    assert page.count("<img") == 2 and "data-kind" not in page and "widgets.js" not in page


def test_two_kinds_of_widget_with_one_name_are_refused():
    _, (one, two) = book_samples.lesson()
    with pytest.raises(BookError, match="two widgets share a name"):
        widgets.scripts([[one, None], [two | {"class": "course_lib.viz.other.GridPlayer"}]])


def test_a_page_that_weighs_too_much_is_refused(monkeypatch):
    monkeypatch.setattr(site, "LIMIT", 50 * 1024)
    with pytest.raises(BookError, match=r"weighs \d+ KiB, and 50 KiB is the limit: show smaller arrays"):
        book_samples.book()


def test_the_search_knows_every_section_and_every_word():
    index = whole()[0]["search_index.js"]
    sections = json.loads(re.search(r"sections: (\[.*\])\};", index, re.S)[1])
    listed = json.loads(re.search(r"pages: (\[.*?\]), sections", index)[1])
    found = {(listed[page][0], id): (heading, text) for page, id, heading, text in sections}
    assert found["docs/glossary.html", "word-lane"] == ("lane", words.of_the_lessons().meaning("lane"))
    assert found["docs/zoo.html", "seen-by-nobody"][0] == "Seen by nobody"
    assert {path for path, _ in found} == read().keys()


def test_a_folder_with_anything_else_is_left_alone(tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(BookError, match="is not empty and holds no book"):
        site.write(tmp_path, {"index.html": ""}, set())
    assert (tmp_path / "thesis.txt").read_text() == "mine"
    for text in ("one", "two"):
        site.write(tmp_path / "book", {"docs/index.html": text}, {"docs/learner.svg"})
    assert (tmp_path / "book/docs/index.html").read_text() == "two" and (tmp_path / "book/docs/learner.svg").exists()


@pytest.mark.parametrize(
    "tex, drawn",
    [
        ("x", "<mrow><mi>x</mi></mrow>"),
        (r"\frac{2 N^3}{\text{a b}}", "<mfrac><mrow><mn>2</mn><msup><mi>N</mi><mn>3</mn></msup></mrow>"
         "<mrow><mtext>a b</mtext></mrow></mfrac>"),
        (r"x_i^2 < \sqrt{D}", "<msubsup><mi>x</mi><mi>i</mi><mn>2</mn></msubsup><mo>&lt;</mo><msqrt>"),
        (r"\begin{aligned} a &= b \\ c &= d \end{aligned}", "<mtable><mtr><mtd"),
    ],
)  # fmt: skip
def test_a_formula(tex, drawn):
    assert drawn in mathml.mathml(tex, display=False)


@pytest.mark.parametrize(
    "tex, says", [(r"\matrix", r"the TeX command \\matrix: add it"), ("{x", "ends too early"), ("x}", "'}' without")]
)
def test_a_formula_that_cannot_be_drawn(tex, says):
    with pytest.raises(BookError, match=says):
        mathml.mathml(tex, display=True)


def test_a_formula_that_cannot_be_drawn_names_its_page():
    notebook, _ = book_samples.lesson()
    notebook.cells[0].source += "\nAnd $\\matrix$.\n"
    with pytest.raises(BookError, match=r"^notebooks/01_hello_kernel.ipynb: the book does not know the TeX command"):
        site.files(book_samples.course(notebook), {})


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """A lesson's notebook and the state of its widgets, kept in a folder of the test."""
    notebook, state = book_samples.lesson()
    pictures = [
        {"still": widget_state._digest(output.data[widget_state.SVG]), "widget": widget}
        for output, widget in zip([cell.outputs[0] for cell in notebook.cells[3:]], state, strict=True)
    ]
    monkeypatch.setattr(widget_state, "FOLDER", str(tmp_path))
    widget_state.keep("90_new", pictures)
    return notebook, state


def test_what_is_kept_belongs_to_the_pictures_of_the_notebook(kept):
    notebook, state = kept
    assert widget_state.kept("90_new", notebook) == state
    assert widget_state.kept("91_other", notebook) is None
    again = nbformat.reads(nbformat.writes(notebook), 4)
    assert widget_state.kept("90_new", again) == state, "as it is read from its file"
    again.cells[4].outputs = []
    assert widget_state.kept("90_new", again) is None


def test_what_is_kept_is_out_of_date_when_the_python_of_a_widget_changes(kept, monkeypatch):
    monkeypatch.setattr(widget_state, "_makers", lambda name: "another version")
    assert widget_state.kept("90_new", kept[0]) is None


@pytest.fixture
def make_book(kept, tmp_path, monkeypatch, capsys):
    """The command, in this process, for the small book: what it prints, and the message it ends with, if there is one.

    The state of its lesson is kept as that of 01_hello_kernel.
    """
    course = book_samples.course(kept[0])
    monkeypatch.setattr(pages, "course", lambda: course)
    (tmp_path / "90_new.json").rename(tmp_path / "01_hello_kernel.json")

    def command(*arguments):
        monkeypatch.setattr(sys, "argv", ["build_book.py", "--out", str(tmp_path / "book"), *arguments])
        try:
            build_book.main()
        except SystemExit as ended:
            return capsys.readouterr().out + str(ended.code)
        return capsys.readouterr().out

    return command


def test_the_command_takes_the_state_that_is_kept(make_book, tmp_path, monkeypatch):
    monkeypatch.setattr(build_book, "build", lambda only: pytest.fail("it has to execute nothing"))
    assert make_book() == f"6 pages: open {tmp_path}/book/index.html\n"
    assert 'data-kind="GridPlayer"' in (tmp_path / "book/notebooks/01_hello_kernel.html").read_text()
    assert make_book("--stills").startswith("6 pages")
    assert "data-kind" not in (tmp_path / "book/notebooks/01_hello_kernel.html").read_text()


def test_the_command_executes_a_lesson_without_state_once(make_book, tmp_path, monkeypatch):
    (tmp_path / "01_hello_kernel.json").rename(tmp_path / "elsewhere")
    executed = []
    monkeypatch.setattr(build_book, "build", executed.append)
    says = "notebooks/01_hello_kernel.ipynb shows other pictures than its source draws here: run `make build` first."
    assert make_book() == f"make book: {says}" and not (tmp_path / "book").exists()
    monkeypatch.setattr(
        build_book, "build", lambda _: (tmp_path / "elsewhere").rename(tmp_path / "01_hello_kernel.json")
    )
    assert make_book().startswith("6 pages") and executed == ["notebooks/01_hello_kernel"]


def test_a_lesson_that_is_executed_keeps_its_state(tmp_path, monkeypatch):
    """As a build does, and the notebook that it stores has the stills to which the state belongs."""
    monkeypatch.setattr(widget_state, "FOLDER", str(tmp_path))
    code = "from course_lib import viz\nladder = viz.memory_ladder()\nladder.bytes = 4096\nladder"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code, id="one")])
    executed, pictures = run.execute(notebook, ROOT / "notebooks/src/90_new.py")
    widget_state.keep("90_new", pictures)
    (widget,) = widget_state.kept("90_new", executed)
    assert widget["class"].endswith(".MemoryLadder") and widget["values"]["bytes"] == 4096
    assert "widgets" not in executed.metadata and "_esm" not in json.dumps(pictures)
