import { normalNumbers, randomNumbers } from './random.mjs';

const numbers = 1 << 20;

/** What a reinforcement learner stores as float32, 4 MiB each: made, not recorded. */
export function observations() {
  const normal = normalNumbers(randomNumbers(11));
  return {
    'frames: 84 x 84, moving shapes, 0 to 1': frames(),
    'frames with noise of a camera': frames((value) =>
      Math.round(Math.min(255, Math.max(0, value + 2 * normal()))),
    ),
    'states: joint angles and speeds': states(normal),
    'smooth series: temperatures, every second': filled(
      (index) => 20 + 5 * Math.sin(index / 500) + 0.01 * normal(),
    ),
    'noise: normal numbers': filled(() => normal()),
  };
}

function filled(make) {
  const out = new Float32Array(numbers);
  for (let index = 0; index < numbers; index++) out[index] = make(index);
  return out;
}

function frames(seen = (value) => value) {
  return filled((index) => {
    const [x, y, frame] = [index % 84, Math.floor(index / 84) % 84, Math.floor(index / 7056)];
    const ball = (x - frame * 3 + 8400) % 84 < 4 && Math.abs(y - 40 - (frame % 20)) < 3;
    const paddle = x > 78 && Math.abs(y - ((frame * 2) % 84)) < 8;
    return seen(ball || paddle ? 236 : y < 8 ? 0 : 87) / 255;
  });
}

/** 17 numbers a step: 8 positions that swing, 9 speeds with noise. */
function states(normal) {
  return filled((index) => {
    const [step, place] = [Math.floor(index / 17), index % 17];
    const angle = Math.sin(step / (20 + place) + place);
    return place < 8 ? 0.6 * angle + 0.01 * normal() : 3 * angle + 0.3 * normal();
  });
}
