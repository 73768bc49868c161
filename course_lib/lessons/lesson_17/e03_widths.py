"""The bytes of a narrow row, tiled and packed, and the width at which they break even."""

from course_lib import chips
from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds import predict
from course_lib.checks.kinds.predict import Predict
from course_lib.checks.kinds.several import Several

CHIP, TILE, ITEM, COLUMNS = "v6e", 128, 4, 20


def tiled(columns: int) -> int:
    """Return the bytes that a gather of one row moves, in tiles."""
    return 2 * ITEM * TILE * -(-columns // TILE)


def packed(columns: int) -> int:
    """Return the bytes that a gather of one packed row moves, and XLA to lay out the result in tiles."""
    granule = chips.sparse_cores(CHIP).granule_bytes
    row = granule * -(-ITEM * columns // granule)
    return 2 * row + row + ITEM * TILE * -(-columns // TILE)


def _widest() -> int:
    return max(columns for columns in range(1, TILE + 1) if packed(columns) < tiled(columns))


_WHOLE = "Which rule do the bullets give for whoever reads or writes a packed row?"
_MOVES = "Of the three moves of the packed row (the gather's read, the gather's write, XLA's read)"
_BOTH = "Both are in the TensorCore's tiles."
_TILES = "The TensorCore reads it in tiles: in which unit does it keep a row?"
_NO_RESULT = "That leaves out what XLA does with the result: it reads the packed one and writes a tiled one."
PARTS = {
    "tiled": Predict(
        value=1024,
        unit="bytes",
        near={
            512: "That is what the gather reads, or what it writes. It does both.",
            592: f"The write is counted as 80 bytes, the row alone, and the read as a whole row of tiles. {_BOTH}",
            608: f"The write is counted as 96 bytes, three granules, and the read as a whole row of tiles. {_BOTH}",
            2048: "That counts XLA's layout of the result too. A tiled result needs none.",
            160: "That is the row's own bytes, read and written. What lies in HBM for a row, in tiles of 128 columns?",
            80: "That is the row itself. What lies in HBM for it, in tiles of 128 columns, and is it only read?",
            192: "That is for whole granules. In tiles a row takes all 128 columns.",
            1028: "The index itself is not to be counted.",
        },
        why="128 columns of 4 bytes are read, and as many written.",
        proof=lambda: tiled(COLUMNS),
    ),
    "packed": Predict(
        value=800,
        unit="bytes",
        near={
            192: _NO_RESULT,
            160: f"{_NO_RESULT} And copies move whole granules of 32 bytes.",
            784: f"{_MOVES} one is counted as 80 bytes, and two as 96. {_WHOLE}",
            768: f"{_MOVES} two are counted as 80 bytes, and one as 96. {_WHOLE}",
            752: "Each of the three moves of the packed row is counted as 80 bytes, no whole number of granules.",
            368: f"What XLA writes is counted as 80 bytes, the row alone. {_TILES}",
            384: f"What XLA writes is counted as 96 bytes, three granules. {_TILES}",
            320: f"{predict.TWO_SLIPS}what XLA writes is counted as 80 bytes, but the TensorCore keeps a row in tiles; "
            "and 80 bytes are no whole number of granules.",
            608: f"{predict.TWO_SLIPS}of the gather's read and write one is left out, and so is what XLA reads.",
            704: "That counts what XLA writes. It also has to read the packed result.",
            672: "80 bytes are no whole number of granules; and XLA also has to read the packed result.",
            288: "XLA reads the packed result. How many bytes does it write, for tiles of 128 columns?",
            1216: "The table stays packed, so only the result is laid out again. What is read there, and what written?",
            804: "The index itself is not to be counted.",
        },
        why="three times 96 bytes, and a tiled row of 512.",
        proof=lambda: packed(COLUMNS),
    ),
    "widest": Predict(
        value=40,
        unit="",
        near={
            42: "42 columns are 168 bytes. How many granules do they take?",
            43: "43 columns are 172 bytes. How many granules do they take?",
            48: "48 columns are 6 granules. Which of the two moves more with them?",
            41: "With 41 columns a row needs one granule more.",
            64: "That would be right if each of them only read and wrote the row. XLA also lays out the result.",
            128: "That compares the gathers alone. XLA also lays out the packed result.",
            127: "That compares the gathers alone. XLA also lays out the packed result.",
            32: "With 32 columns packed rows move fewer bytes, but wider rows may, too.",
        },
        why="five granules, three times, and 512 bytes are still fewer than 1,024.",
        proof=_widest,
    ),
}

EXERCISE = Exercise(
    id="17.3",
    title="Break-even width",
    kind="several",
    defines="widths",
    asks=Several(parts=PARTS, why="packed rows pay until a third of the tiled row's bytes are used."),
    hints=(
        "List for both ways: what does the gather read, what does it write, and what does XLA do afterwards?",
        "A packed row of 20 columns takes three granules. It is read, written, and read once more; then 512 bytes are "
        "written for the TensorCore.",
        "With g granules packed rows move 3 * 32 g + 512 bytes, and tiled ones 1,024. Find the largest whole g for "
        "which the first is smaller, and then the columns that fit into g granules.",
    ),
    points=2,
)
