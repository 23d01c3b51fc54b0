import { Failure } from '../../failure.js';
import { findModel } from '../../model/names/find-model.js';
import { isModelName } from '../../plan/answers/source-of.js';
import type { CliIo } from '../io.js';

/** The folder of a config that was downloaded because --hub asks for it; undefined without --hub. */
export async function hubModel(
  { model, hub }: { readonly model?: string; readonly hub?: boolean },
  { environment }: Pick<CliIo, 'environment'>,
  isHere: boolean,
  signal: AbortSignal,
): Promise<string | undefined> {
  if (hub !== true || model === undefined || !isModelName(model)) return undefined;
  if (!isHere) {
    throw new Failure({
      kind: 'input',
      code: 'bad-usage',
      fact: '--hub downloads to this machine, and the server is on another one.',
      next: 'Leave --hub out, or give --memory.',
    });
  }
  const { source } = await findModel(model, { environment, hub, signal });
  return source.kind === 'path' ? source.path : undefined;
}
