import { describe, expect, it } from 'vitest';
import { bitsAndBytesArguments } from '../plan/quantization/bits-and-bytes.js';
import { GiB } from '../units/bytes.js';
import { budget, plan } from './plan-for-tests.js';
import { renderPlanHtml } from './plan-html.js';

const page = {
  source: { kind: 'path', path: '/srv/models/gpt2/config.json' },
  sequence: 1024,
  plan,
  budget,
  gpu: { name: 'NVIDIA H200' },
  version: '1.2.3',
} as const;

describe('renderPlanHtml', () => {
  it('holds the answer, the settings and every way that was weighed', () => {
    const text = renderPlanHtml(page);
    expect(text).toContain('<title>Memory plan, gpt2/config.json</title>');
    expect(text).toMatch(/<p class="lede yes">It fits into 24\.0.GiB and needs 20\.7.GiB of it/);
    expect(text).toContain('<dt>accumulation</dt><dd>4 <small>32 samples a step</small></dd>');
    expect(text).toContain('<dt>sequence</dt><dd>1024</dd>');
    expect(text.match(/class="option-bar"/g)).toHaveLength(3);
    expect(text.match(/<tr class="chosen">/g)).toHaveLength(1);
    expect(text).toContain('gives up: weights and states of the optimizer in 16 bits');
    expect(text).toContain('<span class="fits no">no</span>');
    // Only what was not traced as the plan was.
    expect(text.match(/<span class="tag">by formula<\/span>/g)).toHaveLength(1);
  });

  it('stands alone and runs nothing, whatever is in it', () => {
    const text = renderPlanHtml(page);
    expect(text).toContain('default-src &#39;none&#39;');
    expect(text).not.toMatch(/<script|https?:|src=|url\(/);
    expect(text).toContain('&lt;b&gt;none&lt;/b&gt;');
    expect(text).not.toContain('<b>none</b>');
  });

  it('says what comes nearest where nothing fits', () => {
    const text = renderPlanHtml({ ...page, plan: { ...plan, fits: false } });
    expect(text).toContain('<p class="lede no">');
    expect(text).toContain('What comes nearest');
  });

  it('shows how to load quantized weights, line by line', () => {
    const loading = bitsAndBytesArguments('int4', { gpuBytes: [20 * GiB], hostBytes: 0 });
    const text = renderPlanHtml({ ...page, loading });
    expect(text).toContain(
      '        load_in_4bit=True,\n        bnb_4bit_quant_type=&quot;nf4&quot;,\n',
    );
  });
});
