// A job of the processor: products of matrices, a line of output for each step, and at the end the
// time of a step in the job's own time, which neighbours on a busy machine disturb least.
const size = 160;
const steps = 150;
const numbers = () => Float64Array.from({ length: size * size }, (_, i) => Math.sin(i));
const [a, b, c] = [numbers(), numbers(), numbers()];

function step() {
  for (let i = 0; i < size; i++) {
    for (let j = 0; j < size; j++) {
      let sum = 0;
      for (let k = 0; k < size; k++) sum += a[i * size + k] * b[k * size + j];
      c[i * size + j] = sum;
    }
  }
}

for (let warm = 0; warm < 20; warm++) step();
const begin = process.cpuUsage();
for (let n = 0; n < steps; n++) {
  step();
  process.stdout.write(`step ${n} ${c[n].toFixed(3)}\n`);
}
const { user, system } = process.cpuUsage(begin);
console.log(`step_ms ${((user + system) / 1000 / steps).toFixed(4)}`);
