// Plain shapes for the fit: what people draw when they think of memory over time. The steps of programs have no series
// as smooth as these, and none with an hour of rest before a leak.
const GiB = 2 ** 30;

/** A course of what is held, and of what is live where it is known; it ends where the limit is reached. */
const shapes = {
  ramp(draw) {
    const from = draw(0.05, 0.5);
    const to = draw(0.4, 1.3);
    const lasts = draw(8, 400);
    const begin = rest(draw);
    return {
      seconds: begin + lasts * 1.3,
      held: (t) => from + (to - from) * share(t - begin, lasts),
    };
  },
  bend(draw) {
    const from = draw(0.05, 0.4);
    const to = draw(0.4, 1.4);
    const lasts = draw(15, 300);
    const power = draw(0, 1) < 0.5 ? draw(0.4, 0.9) : draw(1.3, 4);
    return { seconds: lasts * 1.3, held: (t) => from + (to - from) * share(t, lasts) ** power };
  },
  levels(draw) {
    const tau = draw(5, 60);
    const to = draw(0.5, 1.3);
    return { seconds: 6 * tau, held: (t) => 0.1 + (to - 0.1) * (1 - Math.exp(-t / tau)) };
  },
  sawtooth(draw) {
    const period = draw(3, 25);
    const height = draw(0.1, 0.4);
    const drift = draw(0, 1) < 0.4 ? 0 : draw(0.0005, 0.01);
    return {
      seconds: period * draw(4, 12),
      held: (t) => 0.1 + drift * t + height * ((t / period) % 1),
    };
  },
  belowCache(draw) {
    const held = draw(0.6, 0.96);
    const rate = draw(0, 1) < 0.4 ? 0 : draw(0.002, 0.02);
    const begin = draw(5, 80);
    const swing = draw(0.01, 0.1);
    const live = (t) => 0.15 + swing * ((t / 0.4) % 1) + Math.max(0, t - begin) * rate;
    return { seconds: begin + 60, held: (t) => Math.max(held, live(t)), live };
  },
  wanders(draw) {
    const level = draw(0.2, 0.9);
    const slow = draw(20, 200);
    const size = draw(0.01, 0.08);
    return { seconds: 150, held: (t) => level + size * Math.sin(t / slow) * Math.sin(t / 7) };
  },
};

const share = (t, lasts) => Math.min(1, Math.max(0, t / lasts));

/** Mostly none or short; sometimes an hour. */
function rest(draw) {
  const kind = draw(0, 1);
  if (kind < 0.5) return 0;
  return kind < 0.85 ? draw(5, 100) : draw(900, 4000);
}

export function* plainShapes(count, random) {
  const draw = (low, high) => low + (high - low) * random();
  const names = Object.keys(shapes);
  for (let number = 0; number < count; number++) {
    const kind = names[number % names.length];
    const { seconds, held, live } = shapes[kind](draw);
    const limitBytes = draw(4, 80) * GiB;
    const interval = seconds > 600 ? 0.5 : draw(0, 1) < 0.6 ? 0.1 : 0.5;
    const noise = draw(0, 1) < 0.5 ? 0 : draw(0.0005, 0.006);
    const points = [];
    let at = seconds;
    let ended = 'completed';
    for (let i = 0; i * interval < seconds; i++) {
      const t = i * interval;
      const bytes = (course) =>
        Math.max(0, Math.round((course(t) + noise * (random() - 0.5)) * limitBytes));
      const now = bytes(held);
      if (now >= limitBytes) {
        at = t;
        ended = 'oom';
        break;
      }
      points.push({
        seconds: t,
        limitBytes,
        heldBytes: now,
        ...(live && { liveBytes: Math.min(now, bytes(live)) }),
      });
    }
    yield {
      name: `shape-${kind}-${number}`,
      group: 'shape',
      kind,
      ended,
      at,
      interval,
      goesOn: false,
      points,
    };
  }
}
