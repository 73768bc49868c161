// Numbers in words, as course_lib/text.py writes them; the tests compare both. Widgets that word numbers in the browser
// put this file before their own.

const up = (size, unit) => Math.ceil(size / unit) * unit;

function fixed(value, places) {
  const tie = Number.isInteger(value * 2 ** (places + 1)) && Math.abs((value * 10 ** places) % 1) === 0.5;
  if (!tie) return value.toFixed(places);
  const below = Math.floor(value * 10 ** places); // Python rounds ties to even
  return ((below % 2 ? below + 1 : below) / 10 ** places).toFixed(places);
}
function significant(value, digits) {
  if (!value) return "0";
  const places = Math.max(0, digits - 1 - Math.floor(Math.log10(Math.abs(value))));
  const [whole, rest = ""] = fixed(value, places).split(".");
  const shown = rest.replace(/0+$/, "");
  return whole.replace(/\B(?=(\d{3})+$)/g, ",") + (shown && `.${shown}`);
}
function scaled(value, units, digits, full) {
  const texts = units.map(([unit, scale]) => [significant(value / scale, digits), unit]);
  return (texts.find(([text]) => Number(text.replaceAll(",", "")) < full) ?? texts.at(-1)).join(" ");
}
const thousands = (unit, prefixes = ["", "k", "M", "G", "T", "P"]) => prefixes.map((p, n) => [p + unit, 1000 ** n]);
const flopRate = (rate) => scaled(rate, thousands("FLOP/s"), 3, 1000);
const byteRate = (rate) => scaled(rate, thousands("B/s"), 3, 1000);
const count = (n) => n.toLocaleString("en-US");
const amount = (value, unit) => scaled(value, thousands(unit, ["", "k", "M", "G", "T", "P", "E"]), 4, 1000);
const duration = (s) => (Math.abs(s) < 1e-12 ? "0 ns" : scaled(s, [["ns", 1e-9], ["us", 1e-6], ["ms", 1e-3], ["s", 1]], 3, 1000));
const sizeOf = (n) => (n < 1024 ? (n === 1 ? "1 byte" : `${fixed(n, 0)} bytes`)
  : scaled(n, [["KiB", 2 ** 10], ["MiB", 2 ** 20], ["GiB", 2 ** 30], ["TiB", 2 ** 40]], 4, 1024));
const intensity = (value) => `${significant(value, 3)} FLOPs/byte`;
const percent = (share) => (share > 0 && share < 0.005 ? "<1 %" : `${fixed(100 * share, 0)} %`);
