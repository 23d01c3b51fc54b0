import { crashLine } from './crash-report.js';
import type { PythonEnd } from './python-failure.js';
import { pythonFolder } from './run-python.js';
import type { TracePlace } from './trace-place.js';

/** Stacks of all threads take some 100 KB; a file of the program's own making might be of any size. */
const reportCharacters = 1 << 20;

/** The end of a process, with where it crashed if it left that beside its output. */
export async function crashOf(
  place: Pick<TracePlace, 'has' | 'read'>,
  output: string,
  end: PythonEnd,
): Promise<PythonEnd> {
  const file = `${output}.crash`;
  if (!('stderr' in end) || end.code === 0 || !(await place.has(file))) return end;
  let report = '';
  for await (const part of place.read(file)) {
    report += part;
    if (report.length > reportCharacters) break;
  }
  return { ...end, crashedAt: crashLine(report, pythonFolder) };
}
