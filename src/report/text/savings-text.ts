import type { Estimate, Saving } from '../../estimate/types.js';
import { formatBytes } from '../../units/bytes.js';
import { type EstimateGpu, makesItFit, savingsBasis, settingOptions } from '../estimate-words.js';
import { type Span, span } from './spans.js';

const changeWidth = 24;
const sizeWidth = 10;
const leastWidth = 16;

/** What other settings would save of the least capacity, one line each; none where it was not asked, or nothing would. */
export function savingLines(estimate: Estimate, gpu: EstimateGpu): Span[][] {
  const { savings = [] } = estimate;
  if (savings.length === 0) return [];
  const heads = `  ${''.padEnd(changeWidth)}${'saves'.padStart(sizeWidth)}${'least capacity'.padStart(leastWidth)}`;
  return [
    [],
    [span('Ways to save memory', 'bold'), span(` ${savingsBasis(savings)}:`, 'dim')],
    [span(heads, 'dim')],
    ...savings.map((saving) => savingLine(saving, makesItFit(saving, estimate, gpu))),
  ];
}

function savingLine(saving: Saving, thenItFits: boolean): Span[] {
  const { change, savesBytes, leastCapacityBytes, settings } = saving;
  const line = [
    span(`  ${change.padEnd(changeWidth)}`),
    span(formatBytes(savesBytes).padStart(sizeWidth), 'bold'),
    span(formatBytes(leastCapacityBytes).padStart(leastWidth)),
    span(`  ${settingOptions(settings)}`, 'dim'),
  ];
  return thenItFits ? [...line, span('  then it fits', 'green')] : line;
}
