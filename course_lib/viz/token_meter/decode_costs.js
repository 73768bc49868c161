// One step of decoding by bandwidth alone, as decode_costs.py computes and says it; the tests compare both. units.js comes
// before this file, token_meter.js after it.

export function cost({ parameters, layers, kv_heads, head }, { sequences, context, weight_bytes, kept_bytes }, { bandwidth, hbm_bytes }) {
  const weights = parameters * weight_bytes, kept = sequences * context * (2 * layers * kv_heads * head * kept_bytes);
  const weights_s = weights / bandwidth, kept_s = kept / bandwidth, each = 1 / (weights_s + kept_s);
  return { weights, kept, weights_s, kept_s, each, total: sequences * each, free: hbm_bytes - weights - kept };
}

export const milliseconds = (seconds) => `${significant(1000 * seconds, 3)} ms`;

export const rate = (tokens) => `${significant(tokens, 3)} tokens/s`;

export function binds({ weights_s, kept_s }) {
  if (weights_s === kept_s) return "Weights and KV cache take equally long.";
  const whose = weights_s > kept_s ? "weights take" : "KV cache takes";
  return `The ${whose} longer: ${percent(Math.max(weights_s, kept_s) / (weights_s + kept_s))} of a step.`;
}

export function fits({ weights, kept, free }, { hbm_bytes }) {
  const whole = sizeOf(hbm_bytes), needs = sizeOf(weights + kept);
  if (free < 0) {
    const alone = weights > hbm_bytes ? " The weights alone are too large." : "";
    return `It does not fit: it needs ${needs}, and the chip has ${whole}.${alone}`;
  }
  return `It fits: it needs ${needs} of ${whole}, and ${sizeOf(free)} are free.`;
}
