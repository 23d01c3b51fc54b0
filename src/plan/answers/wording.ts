import type { Wording } from '../../estimate/wording.js';
import type { PlanAnswerRequest } from './workload-request.js';

/** Something a request may hold. */
export type RequestField = keyof PlanAnswerRequest;

/** How errors and notes name any field of a request. */
export type RequestWording = Wording<RequestField>;

/** For those who send JSON. */
export const fieldWording: RequestWording = {
  name: (field) => `"${field}"`,
  example: (field, value) => `${JSON.stringify(field)}: ${JSON.stringify(value)}`,
  anotherPython: 'have the server started with another',
};

/** The arguments of a script, as an example. */
export function argsExample({ example }: RequestWording, batch: string): string {
  return example('args', { batch });
}
