import { type Output, outputOf } from '../io.js';

/** An output of 80 columns that keeps what is written to it. */
export function keptOutput(isTTY: boolean): { output: Output; written: string[] } {
  const written: string[] = [];
  const stream = {
    isTTY,
    columns: 80,
    write: (text: string) => written.push(text),
    on() {},
    once() {},
    off() {},
  };
  return { output: outputOf(stream, {}), written };
}
