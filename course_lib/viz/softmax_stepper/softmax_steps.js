// Online softmax of one row, as softmax_steps.py computes and says it; the tests compare both. A masked score is null
// in the model and -Infinity here. units.js comes before this file, softmax_stepper.js after it.

export function steps(scores, values, block) {
  const found = [];
  let m = -Infinity, total = 0, acc = 0;
  for (let first = 0; first < scores.length; first += block) {
    const end = Math.min(first + block, scores.length), before = m;
    m = Math.max(before, ...scores.slice(first, end));
    const subtracted = m > -Infinity ? m : 0, shrink = Math.exp(before - subtracted);
    total *= shrink;
    acc *= shrink;
    for (let key = first; key < end; key++) {
      const weight = Math.exp(scores[key] - subtracted);
      total += weight;
      acc += weight * values[key];
    }
    found.push({ first, end, before, m, shrink, total, acc });
  }
  return found;
}

export function plain(scores, values) {
  const m = Math.max(...scores);
  if (m === -Infinity) return 0;
  const weights = scores.map((score) => Math.exp(score - m)), total = weights.reduce((sum, each) => sum + each, 0);
  return weights.reduce((sum, each, key) => sum + (each / total) * values[key], 0);
}

export function scoreWords(score) {
  if (score === -Infinity) return "-inf";
  const short = fixed(score + 0, 1);
  return Number(short) === score ? short : fixed(score, 2);
}

export function figure(value) {
  if (value && Math.abs(value) < 0.0005) return value > 0 ? "<0.001" : ">-0.001";
  return fixed(value + 0, 3);
}

export const keysWords = ({ first, end }) => (end === first + 1 ? `key ${first}` : `keys ${first} to ${end - 1}`);

export function said(found, number) {
  if (!number) return "Before the first block, m is -inf, and l and acc are 0.";
  const step = found[number - 1], whose = `Block ${number - 1} has ${keysWords(step)}.`;
  if (step.m === -Infinity) {
    return `${whose} Every score so far is masked, so m stays -inf. The kernel subtracts 0 instead of m, and l and acc stay 0.`;
  }
  const before = scoreWords(step.before), now = scoreWords(step.m);
  if (step.before === -Infinity) return `${whose} The maximum becomes ${now}, and there is nothing to rescale yet.`;
  if (step.m === step.before) return `${whose} The maximum stays, so nothing is rescaled.`;
  const factor = `exp(${before} - ${step.m < 0 ? `(${now})` : now})`, shrink = figure(step.shrink);
  return `${whose} The maximum grows from ${before} to ${now}, so what was summed so far is multiplied by ${factor} `
    + `${shrink.startsWith("<") ? "< 0.001" : `= ${shrink}`}.`;
}

export function ended(scores, values, block) {
  const { acc, total } = steps(scores, values, block).at(-1);
  if (!total) return "Every score of the row is masked, so l is 0, and the result is 0 by convention.";
  return `o = acc / l = ${figure(acc)} / ${figure(total)} = ${figure(acc / total)}. `
    + `Plain softmax over the whole row gives ${figure(plain(scores, values))}.`;
}
