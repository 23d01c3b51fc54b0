/** So often in a row a supervisor may end without having done anything. */
export const maxTries = 5;
const firstPauseSeconds = 1;
/** How long a program has after it was asked to end. The third time its supervisor kills it. */
const graceSeconds = 10;
const askAgainSeconds = 1;

export interface Standing {
  readonly nowSeconds: number;
  /** The supervisor of the run; undefined where there is none. */
  readonly supervisor: number | undefined;
  /** One that was started from here and has not taken up the run yet, or has it. */
  readonly isStarting: boolean;
  /** Supervisors started since something last happened in the run. */
  readonly tries: number;
  readonly triedAt: number;
  readonly stop: undefined | { readonly asked: number; readonly askedAt: number };
}

export type Step =
  | { readonly step: 'wait' | 'attach' | 'give-up' }
  | { readonly step: 'ask'; readonly pid: number };

/** What to do for a run that is not over. */
export function nextStep(at: Standing): Step {
  const { nowSeconds, supervisor, tries, stop } = at;
  if (supervisor !== undefined) {
    if (stop === undefined) return { step: 'wait' };
    const pause = [0, graceSeconds][stop.asked] ?? askAgainSeconds;
    return nowSeconds >= stop.askedAt + pause ? { step: 'ask', pid: supervisor } : { step: 'wait' };
  }
  if (at.isStarting) return { step: 'wait' };
  if (tries >= maxTries) return { step: 'give-up' };
  const pause = tries === 0 ? 0 : firstPauseSeconds * 2 ** (tries - 1);
  return nowSeconds >= at.triedAt + pause ? { step: 'attach' } : { step: 'wait' };
}
