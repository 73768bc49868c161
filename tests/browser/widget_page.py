"""One anywidget on a bare page: no Jupyter, no kernel, nothing that could answer it but its own JavaScript.

with chromium.open_browser() as browser, open_widget(browser, viz.grid_player(add, x, y)) as page:
    page.keyboard.press("ArrowRight")
    assert page.evaluate("model.get('step')") == 1
"""

import base64
import contextlib
import json
import weakref
from collections.abc import Iterator

import anywidget
from playwright.sync_api import Browser, Page

LIMIT_MS = 20_000  # never waited out: a test goes on as soon as what it waits for is there

# A model as anywidget hands it to render(): state in, events out. What a kernel would be sent is kept in
# ``model.saved``; nobody answers. Bytes arrive as a DataView, as they do from a kernel.
_PAGE = """<!doctype html><html><head><style>body { margin: 12px; background: BACKGROUND; }</style><style>CSS</style>
</head><body><div id="widget"></div></body></html>"""
_SHOW = """async ([esm, state]) => {
    const bytes = (text) => new DataView(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer);
    const values = Object.fromEntries(Object.entries(state).map(
        ([name, value]) => [name, value?.base64 === undefined ? value : bytes(value.base64)]));
    const listeners = new Map(), changed = new Set();
    const emit = (event) => (listeners.get(event) ?? []).forEach((call) => call());
    window.model = {
        saved: [],
        get: (name) => values[name],
        set(name, value) {
            if (values[name] === value) return;
            values[name] = value;
            changed.add(name);
            emit(`change:${name}`);
            emit('change');
        },
        save_changes() {
            if (changed.size) model.saved.push(Object.fromEntries([...changed].map((name) => [name, values[name]])));
            changed.clear();
        },
        on: (event, call) => listeners.set(event, [...(listeners.get(event) ?? []), call]),
        off: (event, call) => listeners.set(event, (listeners.get(event) ?? []).filter((c) => call && c !== call)),
        send() { throw new Error('a widget of this course asks the kernel nothing'); },
    };
    const began = performance.now();
    const module = await import(URL.createObjectURL(new Blob([esm], {type: 'text/javascript'})));
    const widget = typeof module.default === 'function' ? await module.default() : module.default;
    const el = document.getElementById('widget');
    await widget.initialize?.({ model });
    window.unmount = await widget.render({ model, el });
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    window.openedMs = performance.now() - began;
}"""

_LETTERS = """() => Math.min(...[...document.querySelectorAll('#widget *')]
    .filter((e) => e.textContent.trim() && !e.children.length).map((e) => parseFloat(getComputedStyle(e).fontSize)))"""


_idle: weakref.WeakKeyDictionary[Browser, list[Page]] = weakref.WeakKeyDictionary()  # a new page takes a second

_COMPUTED = """async ([script, call, args]) => {
    const module = await import(URL.createObjectURL(new Blob([script], {type: 'text/javascript'})));
    return eval(call)(module, ...args);
}"""


@contextlib.contextmanager
def open_widget(
    browser: Browser, widget: anywidget.AnyWidget, *, width=900, height=900, dark=False, reduced_motion=False
) -> Iterator[Page]:
    """The widget drawn on a page that no other uses. Fails if its JavaScript has raised an error that nobody caught.

    On the page, ``model`` holds the widget's state, ``model.saved`` what would have been sent to a kernel, and
    ``openedMs`` the milliseconds from the first line of JavaScript to the second frame drawn.
    """
    pages = _idle.setdefault(browser, [])
    page = pages.pop() if pages else _new_page(browser)
    page.set_viewport_size({"width": width, "height": height})
    page.emulate_media(
        color_scheme="dark" if dark else "light", reduced_motion="reduce" if reduced_motion else "no-preference"
    )
    page.set_content(_PAGE.replace("BACKGROUND", "#111" if dark else "#fff").replace("CSS", str(widget._css)))
    page.evaluate(_SHOW, [str(widget._esm), json.loads(json.dumps(_state(widget), default=_encoded))])
    page.mouse.move(0, 0)  # beside the widget, wherever the test before has left it
    yield page
    assert not page.errors, page.errors
    page.goto("about:blank")  # which ends what the widget has begun; a page on which a test failed is not used again
    pages.append(page)


def _new_page(browser: Browser) -> Page:
    page = browser.new_page()
    page.set_default_timeout(LIMIT_MS)
    page.errors = []
    page.on("pageerror", lambda error: page.errors.append(str(error)))
    return page


def computed(page: Page, script: object, call: str, *args) -> object:
    """What ``call``, JavaScript for a function of a module and of ``args``, makes of a script and them."""
    return page.evaluate(_COMPUTED, [str(script), call, json.loads(json.dumps(args))])


def smallest_letters(page: Page) -> float:
    """Pixels of the smallest text of the widget."""
    return page.evaluate(_LETTERS)


def is_too_wide(page: Page) -> bool:
    """Whether one would have to scroll sideways."""
    return page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth")


def _state(widget: anywidget.AnyWidget) -> dict:
    return {name: value for name, value in widget.get_state().items() if not name.startswith("_")}


def _encoded(value: object) -> dict | str:
    if isinstance(value, bytes | bytearray | memoryview):
        return {"base64": base64.b64encode(value).decode()}
    return str(value)  # a layout or another widget: nothing our JavaScript reads
