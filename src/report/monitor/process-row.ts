import type { Known } from '../../units/known.js';

/** One process on one device, as the table shows it. */
export interface ProcessRow {
  /** Stays the same while the process holds memory there. */
  readonly key: string;
  readonly pid: number;
  /** Empty for a parent that holds no memory itself and is shown in the tree. */
  readonly deviceId: string;
  readonly usedBytes: Known<number> | 'none';
  /** Percent of the device. */
  readonly sharePercent: Known<number> | 'none';
  /** What it holds of the host, where both are watched. */
  readonly hostBytes: Known<number>;
  /** Percent of one core. */
  readonly cpuPercent: Known<number>;
  readonly ageSeconds: Known<number>;
  readonly user: Known<string>;
  readonly command: string;
  /** Both may be `none`. */
  readonly job: Known<string>;
  readonly container: Known<string>;
  readonly parent: number;
  /** Tells it from a later process of the same pid; undefined where that is not known. */
  readonly started: number | undefined;
  readonly isSimulated: boolean;
  /** Bytes a second, where it grows without coming back. */
  readonly growth: Known<number> | 'none';
  /** Memory over time, oldest first; NaN is a gap. */
  readonly trail: readonly number[];
  /** Lines of the tree before the command. */
  readonly branch: string;
}
