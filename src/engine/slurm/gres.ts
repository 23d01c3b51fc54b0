/** GPUs of one type on a node, or shards of them. */
export interface GresCount {
  readonly name: string;
  /** Empty where the site names none. */
  readonly type: string;
  readonly count: number;
}

/**
 * What a node has, as Slurm writes it.
 *
 * @example
 * parseGres('gpu:a100:2(S:0-1),shard:160'); // [{ name: 'gpu', type: 'a100', count: 2 }, { name: 'shard', type: '', count: 160 }]
 */
export function parseGres(text: string): readonly GresCount[] {
  const parts = text.replaceAll(/\([^()]*\)/g, '').split(',');
  return parts.flatMap((part) => {
    const [name = '', ...rest] = part
      .trim()
      .replace(/^gres[/:]/, '')
      .split(':');
    const last = rest.at(-1) ?? '1';
    const count = counted(last);
    if (name === '' || name === '(null)') return [];
    const type = count === undefined ? rest.join(':') : rest.slice(0, -1).join(':');
    return [{ name, type, count: count ?? 1 }];
  });
}

/** `8`, or `1K` as Slurm shortens large counts. */
function counted(text: string): number | undefined {
  const [, digits, unit = ''] = /^(\d{1,12})([KMG]?)$/.exec(text) ?? [];
  if (digits === undefined) return undefined;
  return Number(digits) * 1024 ** ['', 'K', 'M', 'G'].indexOf(unit);
}
