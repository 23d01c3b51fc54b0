/** An argument of a Python call: a number, a truth value, or text; undefined is left out. */
export type PythonValue = number | boolean | string | undefined;

/**
 * A call in Python, one argument a line.
 *
 * @example
 * pythonCall('args = TrainingArguments', ['"out"'], { bf16: true });
 */
export function pythonCall(
  head: string,
  first: readonly string[],
  named: Readonly<Record<string, PythonValue>>,
): string[] {
  const given = Object.entries(named).flatMap(([name, value]) =>
    value === undefined ? [] : [`${name}=${literal(value)}`],
  );
  return [`${head}(`, ...[...first, ...given].map((argument) => `    ${argument},`), ')'];
}

/** JSON writes texts and numbers as Python does. */
function literal(value: number | boolean | string): string {
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  return JSON.stringify(value);
}
