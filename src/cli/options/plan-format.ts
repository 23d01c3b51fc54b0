import { Failure } from '../../failure.js';
import { type Framework, frameworks } from '../../plan/snippets/formats.js';

export const planFormats = ['text', 'json', ...frameworks] as const;
export type PlanFormat = (typeof planFormats)[number];

/** The format that was asked for; `--json` is one of them. */
export function planFormatOf(given: {
  readonly format?: PlanFormat | undefined;
  readonly json?: boolean | undefined;
}): PlanFormat {
  const { format, json } = given;
  if (json === true && format !== undefined && format !== 'json') {
    throw new Failure({
      kind: 'input',
      code: 'bad-usage',
      fact: `--json and --format ${format} contradict each other.`,
      next: 'Leave one of them out.',
    });
  }
  return json === true ? 'json' : (format ?? 'text');
}

export function isFramework(format: PlanFormat): format is Framework {
  return format !== 'text' && format !== 'json';
}

/** It fits by the estimate, but not by the upper end of its interval. */
const mayLackExitCode = 5;

/** 0 surely fits, 5 should fit, 1 does not. The largest batch goes to the limit by itself: 0 there. */
export function planExitCode(
  { fits, surely }: { readonly fits: boolean; readonly surely: boolean },
  isLargest = false,
): number {
  if (!fits) return 1;
  return surely || isLargest ? 0 : mayLackExitCode;
}
