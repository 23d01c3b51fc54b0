// Other ways to say when memory is full, for the benchmark: each gets a point and answers with probabilities for 15 s,
// 60 s and 5 min, and an alarm.

const horizons = [15, 60, 300];

/** The share of a normal distribution above `z`, by Abramowitz and Stegun's formula 26.2.17. */
function above(z) {
  const t = 1 / (1 + 0.2316419 * Math.abs(z));
  const tail =
    0.3989423 *
    Math.exp((-z * z) / 2) *
    t *
    (0.3193815 + t * (-0.3565638 + t * (1.781478 + t * (-1.821256 + t * 1.330274))));
  return z > 0 ? tail : 1 - tail;
}

/** What predict_linear of Prometheus does: the line through 15 s, and where it is in 30 s. */
function predictLinear() {
  const window = [];
  let first;
  return ({ seconds, limitBytes, heldBytes }) => {
    first ??= seconds;
    window.push([seconds, heldBytes]);
    while (window.length > 2 && window[0][0] <= seconds - 15) window.shift();
    if (seconds - first < 15 || window.length < 2)
      return { alarm: false, probabilities: [0, 0, 0] };
    const n = window.length;
    const t = window.reduce((sum, one) => sum + one[0], 0) / n;
    const y = window.reduce((sum, one) => sum + one[1], 0) / n;
    let up = 0;
    let down = 0;
    for (const one of window) {
      up += (one[0] - t) * (one[1] - y);
      down += (one[0] - t) ** 2;
    }
    const slope = down > 0 ? up / down : 0;
    const level = y + slope * (seconds - t);
    const etaSeconds = slope > 0 ? Math.max(0, (limitBytes - level) / slope) : Infinity;
    return {
      alarm: etaSeconds <= 30,
      etaSeconds,
      lowSeconds: etaSeconds,
      highSeconds: etaSeconds,
      probabilities: horizons.map((horizon) => (etaSeconds <= horizon ? 1 : 0)),
    };
  };
}

/** A local linear trend, filtered; noise is learnt from its own errors. */
function kalman() {
  let x;
  let p;
  let last;
  let noise = 1e12;
  return ({ seconds, limitBytes, heldBytes }) => {
    if (!x) {
      x = [heldBytes, 0];
      p = [1e14, 0, 1e14];
      last = seconds;
      return { alarm: false, probabilities: [0, 0, 0] };
    }
    const dt = Math.max(1e-3, seconds - last);
    last = seconds;
    const q = 0.02 * noise;
    const [a, b, c] = p;
    x = [x[0] + dt * x[1], x[1]];
    const pa = a + 2 * dt * b + dt * dt * c + q * dt;
    const pb = b + dt * c;
    const pc = c + q * dt * 0.05;
    const error = heldBytes - x[0];
    const s = pa + noise;
    const k = [pa / s, pb / s];
    x = [x[0] + k[0] * error, x[1] + k[1] * error];
    p = [pa * (1 - k[0]), pb * (1 - k[0]), pc - k[1] * pb];
    noise = Math.max(1e8, noise + 0.05 * (error * error - noise));
    const probabilities = horizons.map((horizon) => {
      const mean = x[0] + horizon * x[1];
      const spread = Math.sqrt(p[0] + 2 * horizon * p[1] + horizon ** 2 * p[2] + noise);
      return above((limitBytes - mean) / spread);
    });
    const etaSeconds = x[1] > 0 ? Math.max(0, (limitBytes - x[0]) / x[1]) : Infinity;
    return {
      alarm: probabilities[0] >= 1 / 3 || probabilities[1] >= 0.83,
      etaSeconds,
      lowSeconds: etaSeconds * 0.6,
      highSeconds: etaSeconds * 1.8,
      probabilities,
    };
  };
}

/** Trend and season, as additive models have it: the period by autocorrelation, the trend from period to period. */
function seasonal() {
  const past = [];
  let due = Number.NEGATIVE_INFINITY;
  let answer = { alarm: false, probabilities: [0, 0, 0] };
  let every = 1;
  return ({ seconds, limitBytes, heldBytes }) => {
    past.push([seconds, heldBytes]);
    if (past.length > 400) past.splice(0, past.length, ...past.filter((_, i) => i % 2 === 0));
    if (seconds < due || past.length < 20) return answer;
    every = (seconds - past[0][0]) / past.length;
    due = seconds + Math.max(0.5, 5 * every);
    const n = past.length;
    const mean = past.reduce((sum, one) => sum + one[1], 0) / n;
    let best = { lag: 0, value: 0.3 };
    let variance = 0;
    for (const one of past) variance += (one[1] - mean) ** 2;
    for (let lag = 5; lag < n / 2.5; lag += Math.ceil(n / 80)) {
      let sum = 0;
      for (let i = lag; i < n; i++) sum += (past[i][1] - mean) * (past[i - lag][1] - mean);
      if (sum / variance > best.value) best = { lag, value: sum / variance };
    }
    const window = best.lag > 0 ? Math.min(n, 2 * best.lag) : Math.min(n, Math.ceil(n / 3));
    const tail = past.slice(-window);
    const t = tail.reduce((sum, one) => sum + one[0], 0) / window;
    const y = tail.reduce((sum, one) => sum + one[1], 0) / window;
    let up = 0;
    let down = 0;
    for (const one of tail) {
      up += (one[0] - t) * (one[1] - y);
      down += (one[0] - t) ** 2;
    }
    const slope = down > 0 ? up / down : 0;
    let rest = 0;
    let most = 0;
    for (const one of tail) {
      const off = one[1] - y - slope * (one[0] - t);
      rest += off * off;
      most = Math.max(most, off);
    }
    const spread = Math.sqrt(rest / window) + 1e6;
    const level = y + slope * (seconds - t) + (best.lag > 0 ? most : 0);
    const probabilities = horizons.map((horizon) =>
      above(
        (limitBytes - level - slope * horizon) /
          (spread * (1 + horizon / Math.max(1, window * every))),
      ),
    );
    const etaSeconds = slope > 0 ? Math.max(0, (limitBytes - level) / slope) : Infinity;
    answer = {
      alarm: probabilities[0] >= 1 / 3 || probabilities[1] >= 0.83,
      etaSeconds,
      lowSeconds: etaSeconds * 0.6,
      highSeconds: etaSeconds * 1.8,
      probabilities,
    };
    return answer;
  };
}

export const rivals = [
  { name: 'predict_linear', create: predictLinear },
  { name: 'Kalman trend', create: kalman },
  { name: 'seasonal trend', create: seasonal },
];
