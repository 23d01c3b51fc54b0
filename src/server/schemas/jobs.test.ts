import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import {
  degradedReasonSchema,
  jobReasonSchema,
  needReasonSchema,
  waitingReasonSchema,
} from './jobs.js';

const docs = readFileSync(new URL('../../../docs/jobs.md', import.meta.url), 'utf8');
const schemas = [jobReasonSchema, waitingReasonSchema, degradedReasonSchema, needReasonSchema];
const codes = schemas.flatMap(({ options }) =>
  options.flatMap(({ shape: { code } }) => ('options' in code ? code.options : [...code.values])),
);

describe('the codes of reasons', () => {
  it.each([...new Set(codes)])('%s stands in docs/jobs.md', (code) => {
    expect(docs).toContain(`\`${code}\``);
  });
});
