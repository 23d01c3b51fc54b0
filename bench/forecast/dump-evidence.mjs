// Writes what the forecast weighed at each of its conclusions, and what came after it, for `fit.py`.
//
//   node bench/forecast/dump-evidence.mjs FILE
//
// FILE holds rows of float32: series, seconds, left (-1: no end came), to the end of the recording, may go on after it,
// then the features. FILE.json names the series: those that the fit may see, each from inside and
// from outside (what is live is unknown), and plain shapes.
import { writeFileSync } from 'node:fs';
import { randomNumbers } from '../../dist/estimate/trace/unsure-kernels.js';
import { createForecaster } from '../../dist/watch/diagnosis/forecast.js';
import { plainShapes } from './plain-shapes.mjs';
import { forecastSeries } from './series.mjs';

const [out] = process.argv.slice(2);
const all = [];
const series = [];
let width = 0;

function write(one, points) {
  const forecaster = createForecaster();
  for (const point of points) {
    forecaster.add(point);
    const { seconds, features } = forecaster.evidence();
    if (seconds !== point.seconds || features.length === 0) continue;
    const left = one.ended === 'oom' ? one.at - seconds : -1;
    all.push(series.length, seconds, left, one.at - seconds, one.goesOn ? 1 : 0, ...features);
    width = 5 + features.length;
  }
  series.push({ name: one.name, group: one.group, kind: one.kind, ended: one.ended, at: one.at });
}

for (const one of forecastSeries({ every: 1, fitted: true })()) {
  write(one, one.points);
  const { length } = series;
  if (length % 2 === 1 || one.group !== 'generated') {
    write(
      one,
      one.points.map((point) => ({ ...point, liveBytes: undefined })),
    );
  }
}
for (const one of plainShapes(600, randomNumbers(7))) write(one, one.points);
writeFileSync(out, Buffer.from(Float32Array.from(all).buffer));
writeFileSync(`${out}.json`, JSON.stringify({ width, series }));
console.log(`${series.length} series, ${all.length / width} conclusions, ${width - 5} features`);
