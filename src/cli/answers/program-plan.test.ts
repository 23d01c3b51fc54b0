import { expect, it } from 'vitest';
import { EventStreamBuilder } from '../../estimate/trace/event-stream.js';
import { digestOf } from './program-plan.js';

function streamOf(...sizes: readonly number[]) {
  const builder = new EventStreamBuilder();
  for (const size of sizes) builder.free(builder.alloc(size));
  return builder.finish();
}

it('tells streams apart by sizes and order, and nothing else', () => {
  expect(digestOf(streamOf(512, 1024))).toBe(digestOf(streamOf(512, 1024)));
  expect(digestOf(streamOf(512, 1024))).not.toBe(digestOf(streamOf(1024, 512)));
  expect(digestOf(streamOf(512, 1024))).not.toBe(digestOf(streamOf(512, 1025)));
  expect(digestOf(streamOf(512))).not.toBe(digestOf(streamOf(512, 512)));
});
