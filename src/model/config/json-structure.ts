import type { Failure } from '../../failure.js';
import { limits } from '../limits.js';

/**
 * Refuses text that would fill memory once it is parsed: four million opening brackets take 4 MB as
 * text and gigabytes as lists. It does not find out whether the text is JSON.
 */
export function checkJsonStructure(text: string, fail: (what: string) => Failure): void {
  let depth = 0;
  let values = 1;
  let inText = false;
  for (let index = 0; index < text.length; index += 1) {
    const character = text[index];
    if (inText) {
      if (character === '\\') index += 1;
      else if (character === '"') inText = false;
    } else if (character === '"') inText = true;
    else if (character === '{' || character === '[') {
      depth += 1;
      values += 1;
    } else if (character === '}' || character === ']') depth -= 1;
    else if (character === ',') values += 1;
    if (depth > limits.configDepth) throw fail(`it nests deeper than ${limits.configDepth} levels`);
    if (values > limits.configValues) throw fail(`it holds over ${limits.configValues} values`);
  }
}
