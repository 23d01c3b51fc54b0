import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { degradedReasonSchema, jobReasonSchema, waitingReasonSchema } from './reasons.js';

const docs = readFileSync(new URL('../../../docs/jobs.md', import.meta.url), 'utf8');
const codes = [jobReasonSchema, waitingReasonSchema, degradedReasonSchema].flatMap(({ options }) =>
  options.flatMap(({ shape: { code } }) => ('options' in code ? code.options : [...code.values])),
);

describe('the codes of reasons', () => {
  it.each([...new Set(codes)])('%s stands in docs/jobs.md', (code) => {
    expect(docs).toContain(`\`${code}\``);
  });
});
