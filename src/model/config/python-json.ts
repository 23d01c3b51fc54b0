/**
 * JSON as Python's `json` module writes it may hold `Infinity`, `-Infinity` and `NaN`, which JSON does not have: the configs
 * of Mamba 2 and its relatives do. Each becomes `null`, so that the rest can be read; texts in quotes stay as they are.
 */
export function withoutPythonNumbers(text: string): string {
  return text.replaceAll(/"(?:[^"\\]|\\.)*"|-?\bInfinity\b|\bNaN\b/gs, (found) =>
    found.startsWith('"') ? found : 'null',
  );
}
