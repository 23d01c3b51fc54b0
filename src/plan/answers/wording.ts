import type { PlanAnswerRequest } from './workload-request.js';

/** Something a request may hold. */
export type RequestField = keyof PlanAnswerRequest;

/** How errors and notes name what was asked for: as those who asked wrote it. */
export interface Wording {
  readonly name: (field: RequestField) => string;
  /** A field with a value, as an example. */
  readonly example: (field: RequestField, value: unknown) => string;
}

/** For those who send JSON. */
export const fieldWording: Wording = {
  name: (field) => `"${field}"`,
  example: (field, value) => `${JSON.stringify(field)}: ${JSON.stringify(value)}`,
};

/** The arguments of a script, as an example. */
export function argsExample(wording: Wording, batch: string): string {
  return wording.example('args', { batch });
}
