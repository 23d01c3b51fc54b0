import { leastIntervalSeconds } from '../watch/sampling/intervals.js';

/** What the configuration may hold; options of the command keep to the same limits. */
export const limits = {
  leastIntervalSeconds,
  /** A day: beyond it nothing is being watched, and a slip such as milliseconds is likelier. */
  maxIntervalSeconds: 86_400,
  /** A threshold of 0 would always be passed. */
  leastPercent: 1,
  /** More than any one machine has, with MIG instances. */
  deviceNames: 1024,
  /** Below what any system takes for one program. */
  commandWords: 256,
  /** The length that common servers and proxies still take. */
  urlLength: 2048,
  /** More kinds of cards than any one fleet has. */
  gpus: 256,
  gpuAliases: 32,
  /** The longest real name has some 40 letters. */
  gpuNameLength: 100,
  /** A pebibyte: no card comes near, and sums of a few stay exact. */
  gpuBytes: 2 ** 50,
  /** Python keeps thresholds in 32 bits. */
  gcCount: 2 ** 31 - 1,
  /** No training step takes a million samples on one machine. */
  batch: 2 ** 20,
  /** More than any model has layers. */
  segments: 10_000,
  /** More than any machine has cores. */
  workers: 1024,
  prefetch: 1024,
  /** Beyond this a list is no summary. */
  profiledLines: 1000,
  /** A configuration has some dozen keys; a larger file is another file by mistake. */
  fileBytes: 256 * 1024,
} as const;
