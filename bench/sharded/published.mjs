// Ranks that others measured on cards which were not measured here, beside our traces of the same settings:
// transformers' Llama stands for their own.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Failure } from '../../dist/failure.js';
import { answerEstimate } from '../../dist/plan/answers/answer-estimate.js';
import { fieldWording } from '../../dist/plan/answers/wording.js';
import { truthFolder, truthPlace } from '../truth.mjs';

const external = (name) => join(truthFolder('cases'), 'external', name);
/** Above it a difference needs its reason. */
const near = 0.05;

export async function publishedRows(python, only) {
  const rows = JSON.parse(readFileSync(join(truthPlace, 'external', 'sharded.json'), 'utf8'));
  const machine = {
    environment: process.env,
    folder: process.cwd(),
    python,
    gpusHere: () => Promise.resolve([]),
    hostBytes: 0,
    wording: fieldWording,
  };
  const made = new Map();
  const found = [];
  for (const row of rows.filter(({ setting }) => setting.includes(only))) {
    const { config, args, request, notCounted, notTraced } = row;
    if (notTraced !== undefined) {
      found.push({ ...row, failure: `not traced: ${notTraced}` });
      continue;
    }
    const settings =
      notCounted === undefined
        ? {
            script: external('causal.py'),
            args: Object.fromEntries(
              Object.entries({ config: external(`${config}.json`), ...args }).map(
                ([name, value]) => [name, String(value)],
              ),
            ),
            ...request,
          }
        : {
            model: external('llama-3.1-8b.json'),
            batch: 1,
            seq: 2048,
            gpus: 8,
            parallel: notCounted,
          };
    const key = JSON.stringify(settings);
    made.set(key, made.get(key) ?? (await reserved(settings, machine)));
    found.push({ ...row, ...compared(row.publishedGib, made.get(key)) });
  }
  return found;
}

async function reserved(settings, machine) {
  try {
    const { peak } = await answerEstimate(settings, machine);
    return peak.reservedBytes;
  } catch (error) {
    if (error instanceof Failure) return `${error.code}: ${error.fact}`;
    throw error;
  }
}

function compared(theirs, ours) {
  if (typeof ours === 'string') return { failure: ours };
  const gib = ours / 2 ** 30;
  return { gib, difference: gib / theirs - 1 };
}

export function publishedLines(rows) {
  const width = Math.max(...rows.map(({ setting }) => setting.length));
  let source = '';
  return rows.flatMap((row) => {
    const head = row.source === source ? [] : ['', row.source];
    source = row.source;
    const theirs = `${row.publishedGib.toFixed(1)} GiB`.padStart(9);
    return [...head, `  ${row.setting.padEnd(width)} ${theirs}  ${answerWords(row)}`];
  });
}

function answerWords({ gib, difference, failure, reason }) {
  if (failure !== undefined) return failure;
  const percent = `${difference > 0 ? '+' : ''}${(difference * 100).toFixed(1)} %`;
  const why = Math.abs(difference) > near ? `  (${reason ?? 'the reason is not known'})` : '';
  return `${gib.toFixed(1)} GiB  ${percent}${why}`;
}
