"""What a learner does in JupyterLab: run a lesson, step through a grid, answer an exercise, survive a crash.

The tests share one server and one browser. Screenshots go to tests/artifacts/.
"""

import io
import re

import pytest
from conftest import needs_libtpu
from PIL import Image
from real_lab import CELL, open_lab, wait_until_asked

EXERCISES_OF_LESSON_1 = tuple(f"01-{number}" for number in range(1, 10))
RIGHT = "o_ref[...] = x_ref[...] + y_ref[...]"
ACTIVE_CELL = "window.jupyterapp.shell.currentWidget.content.activeCellIndex"
CELLS = "window.jupyterapp.shell.currentWidget.context.model.toJSON().cells.map((cell) => [cell.id, cell.cell_type])"
ALL_CELLS = "window.jupyterapp.shell.currentWidget.context.model.toJSON().cells"
CLOSE_TAB = "window.jupyterapp.shell.currentWidget.close()"
LESSON = "notebooks/01_hello_kernel.ipynb"
LISTED = "async (folder) => (await window.jupyterapp.serviceManager.contents.get(folder)).content.map((f) => f.name)"
RESTART = "window.jupyterapp.shell.currentWidget.context.sessionContext.session.kernel.restart()"
RUNS = f"(id) => {CELL}(id).executionState === 'running'"
FOCUSED = "document.activeElement.className"


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    with open_lab(tmp_path_factory.mktemp("lab")) as lab:
        yield lab


@pytest.fixture(scope="module")
def lesson(lab):
    with lab.open(LESSON) as notebook:
        notebook.run_all()
        yield notebook


@pytest.fixture(scope="module")
def exercises(lab):
    with lab.open("exercises/01_hello_kernel.ipynb") as notebook:
        notebook.run_all()
        yield notebook


@pytest.fixture
def player(lesson):
    """The first grid player of the lesson, at its first step."""
    player = lesson.page.locator(".course-player").first
    player.scroll_into_view_if_needed()
    player.locator(".course-slider").fill("0")
    wait_for_step(player, 1)
    return player


@pytest.fixture
def answered(exercises):
    """The exercises with a right answer to 01.1."""
    if not exercises.source("01-1").endswith(RIGHT):
        exercises.type_line("01-1", RIGHT)
    exercises.click_into("01-1")
    return exercises


def wait_for_step(player, number: int) -> None:
    """Wait until the player shows a step of four: in its caption, on its slider, and in each of the three vectors."""
    player.get_by_text(re.compile(rf"^Step {number} of 4, grid index \({number - 1},\)")).wait_for()
    assert player.locator(".course-slider").input_value() == str(number - 1)
    assert player.locator(".course-slot.current").all_text_contents() == [f"({number - 1},)"] * 3


def test_a_lesson_runs_to_its_end(lesson):
    assert lesson.red() == []
    assert lesson.never_ran() == []
    assert "on this machine" in lesson.output("first-cell")
    lesson.screenshot("lesson", of="first-cell")
    assert lesson.page_errors == []


def test_arrow_keys_move_the_player_and_not_the_notebook(lesson, player):
    active = lesson.page.evaluate(ACTIVE_CELL)
    player.locator(".course-slider").focus()
    for key, step in (("ArrowRight", 2), ("ArrowRight", 3), ("ArrowLeft", 2), ("ArrowDown", 1), ("ArrowUp", 2)):
        lesson.page.keyboard.press(key)
        wait_for_step(player, step)
    lesson.screenshot("player-after-keys")
    assert lesson.page.evaluate(ACTIVE_CELL) == active
    assert "course-slider" in lesson.page.evaluate(FOCUSED)
    assert lesson.page_errors == []


def test_buttons_of_the_player_listen_to_the_keyboard(lesson, player):
    player.locator(".course-next").focus()
    lesson.page.keyboard.press("Space")
    wait_for_step(player, 2)
    lesson.page.keyboard.press("Enter")
    wait_for_step(player, 3)
    assert "course-next" in lesson.page.evaluate(FOCUSED)


def test_keys_typed_on_a_widget_edit_no_cell(lesson, player):
    """In JupyterLab "d d" deletes a cell, "b" adds one and "y" changes its kind; Shift+Enter still runs it."""
    cells = lesson.page.evaluate(CELLS)
    player.locator(".course-play").focus()
    for key in ("d", "d", "b", "a", "y", "m"):
        lesson.page.keyboard.press(key)
    assert lesson.page.evaluate(CELLS) == cells
    active = lesson.page.evaluate(ACTIVE_CELL)
    lesson.page.keyboard.press("Shift+Enter")
    lesson.page.wait_for_function(f"(was) => {ACTIVE_CELL} !== was", arg=active)


def test_the_mouse_moves_the_player(player):
    player.locator(".course-next").click()
    wait_for_step(player, 2)
    player.locator(".course-back").click()
    wait_for_step(player, 1)
    player.locator(".course-back").click()  # nothing lies before the first step
    wait_for_step(player, 1)
    output = player.locator(".course-plane").last
    across, down = output.evaluate("(plane) => plane.blockCentre([2])")
    output.click(position={"x": across, "y": down})
    wait_for_step(player, 3)


def test_play_goes_to_the_end_and_stops(player):
    play = player.locator(".course-play")
    assert play.inner_text() == "Play"
    play.click()
    assert play.inner_text() == "Pause"
    wait_for_step(player, 4)
    player.get_by_role("button", name="Play", exact=True).wait_for()
    wait_for_step(player, 4)


def test_two_players_on_a_page_are_two(lesson, player):
    other = lesson.page.locator(".course-player").nth(1)
    player.locator(".course-next").click()
    wait_for_step(player, 2)
    assert other.locator(".course-caption").text_content().startswith("Step 1 of 4")


def test_a_player_is_dark_in_the_dark_theme(lesson, player):
    lesson.choose_theme("JupyterLab Dark", light="false")
    assert brightest_corner(player.screenshot()) < 60
    lesson.screenshot("player-in-the-dark-theme")
    lesson.choose_theme("JupyterLab Light", light="true")
    assert brightest_corner(player.screenshot()) > 240


def brightest_corner(png: bytes) -> int:
    """The brightest channel of a pixel inside the upper left corner of a picture."""
    return max(Image.open(io.BytesIO(png)).convert("RGB").getpixel((12, 8)))


def test_widgets_outlive_their_kernel(lesson, lab):
    """The reader has saved and comes back another day. Last of the tests of this page, whose kernel it restarts."""
    lesson.save()
    lesson.page.evaluate(RESTART)
    with lab.open(LESSON) as again:
        player = again.page.locator(".course-player").first
        player.scroll_into_view_if_needed()
        player.locator(".course-slider").fill("0")
        player.locator(".course-next").click()
        wait_for_step(player, 2)
        again.screenshot("player-without-its-kernel")
        assert again.page.get_by_text("Error displaying widget").count() == 0 and again.page_errors == []


@pytest.fixture(scope="module")
def shipped(lab):
    with lab.open("notebooks/02_the_machine.ipynb") as notebook:
        yield notebook


def test_a_notebook_as_it_is_shipped(shipped):
    """It counts as unchanged, its widgets are still images, and an output that the reader shall predict is folded."""
    assert not shipped.unsaved()
    cells = shipped.page.evaluate(ALL_CELLS)
    predicted = next(cell for cell in cells if "predict" in cell["metadata"].get("tags", []))
    folded = shipped.cell(predicted["id"])
    folded.scroll_into_view_if_needed()
    folded.locator(".jp-OutputPlaceholder").click()
    assert shipped.output(predicted["id"]) == "".join(predicted["outputs"][0]["text"])
    widget = next(c for c in cells if any("image/svg+xml" in o.get("data", {}) for o in c.get("outputs", [])))
    shipped.cell(widget["id"]).scroll_into_view_if_needed()
    still = shipped.cell(widget["id"]).locator(".jp-OutputArea-output img")
    still.wait_for()
    assert still.evaluate("(image) => image.complete && image.naturalWidth") > 100
    assert brightest_corner(still.screenshot()) > 240
    shipped.choose_theme("JupyterLab Dark", light="false")
    assert brightest_corner(still.screenshot()) < 60
    shipped.screenshot("still-in-the-dark-theme")
    shipped.choose_theme("JupyterLab Light", light="true")
    assert shipped.page_errors == []


def test_links_of_a_notebook_open_pages_to_read(shipped):
    """A word in a box opens the glossary, as text and not as Markdown; the last cell opens the next notebook."""
    box = next(c for c in shipped.page.evaluate(ALL_CELLS) if "**[MXU](" in "".join(c["source"]))
    shipped.cell(box["id"]).scroll_into_view_if_needed()
    shipped.cell(box["id"]).get_by_role("link", name="MXU").click()
    shipped.page.locator(".jp-MarkdownViewer").get_by_role("cell", name="MXU", exact=True).wait_for()
    shipped.page.evaluate(CLOSE_TAB)
    last = shipped.page.evaluate(ALL_CELLS)[-1]
    shipped.cell(last["id"]).scroll_into_view_if_needed()
    shipped.cell(last["id"]).get_by_role("link", name="the exercises of this lesson").click()
    shipped.page.get_by_role("tab", name="02_the_machine.ipynb").nth(1).wait_for()
    assert shipped.page_errors == []


def test_the_file_browser_shows_what_a_learner_opens(exercises):
    listed = exercises.page.evaluate(LISTED, "notebooks")
    assert "00_start_here.ipynb" in listed and "src" not in listed


def test_untouched_exercises_show_no_red(exercises):
    assert exercises.red() == []
    assert exercises.never_ran() == []
    for id in EXERCISES_OF_LESSON_1:
        assert exercises.output(f"{id}-check").startswith(f"… {id.replace('-', '.')} not attempted")
    assert exercises.page_errors == []


def test_a_wrong_answer_gets_a_verdict_and_the_right_one_passes(exercises):
    exercises.type_line("01-1", "o_ref[...] = x_ref[...]")
    assert exercises.source("01-1").endswith('"""\n    o_ref[...] = x_ref[...]')
    check(exercises, "○ 01.1 not yet: the numbers judge refused it.")
    assert "Next:" in exercises.output("01-1-check")
    exercises.screenshot("verdict-wrong", of="01-1-check")

    exercises.type_line("01-1", RIGHT, instead=True)
    assert exercises.source("01-1").endswith(f'"""\n    {RIGHT}')
    check(exercises, "✓ 01.1 passed: ")
    exercises.screenshot("verdict-right", of="01-1-check")
    assert exercises.page_errors == []


def test_an_interrupted_check_says_one_sentence(exercises):
    exercises.type_line("01-1", "while True: pass", instead=True)
    before = exercises.press_shift_enter("01-1", "01-1-check")
    exercises.page.wait_for_function(RUNS, arg="01-1-check")
    exercises.interrupt()
    exercises.wait_until_run("01-1-check", before)
    said = "○ 01.1 interrupted; nothing is recorded. Is there a loop that never ends?"
    assert exercises.output("01-1-check").strip() == said and exercises.red() == []
    exercises.type_line("01-1", RIGHT, instead=True)
    check(exercises, "✓ 01.1 passed: ")


@needs_libtpu
def test_a_killed_compiler_comes_back(answered, lab):
    assert lab.compilers(), "no compiler runs, so this test would prove nothing"
    lab.kill(lab.compilers())
    check(answered, "✓ 01.1 passed: numbers, simulator, races and compiler agree.")
    assert lab.compilers()


@needs_libtpu
def test_a_compiler_killed_at_work_still_gives_a_verdict(answered, lab):
    check(answered, "✓ 01.1 passed")
    answered.click_into("01-1")
    at_work = lab.compilers()
    for compiler in at_work:
        compiler.suspend()
    before = answered.press_shift_enter("01-1", "01-1-check")
    wait_until_asked(at_work)
    lab.kill(at_work)
    answered.wait_until_run("01-1-check", before)
    assert answered.output("01-1-check").startswith("✓ 01.1 passed: numbers, simulator, races and compiler agree.")
    assert answered.red() == []


def test_a_restarted_kernel_runs_the_page_again(answered):
    answered.restart_and_run_all()
    assert answered.red() == []
    assert answered.output("01-1-check").startswith("✓ 01.1 passed: ")
    assert answered.page_errors == []


def check(notebook, verdict: str) -> None:
    """Run 01.1 from the cell with the cursor in it to its check, and expect a verdict."""
    before = notebook.press_shift_enter("01-1", "01-1-check")
    notebook.wait_until_run("01-1-check", before)
    assert notebook.output("01-1-check").startswith(verdict)
    assert notebook.red() == []
