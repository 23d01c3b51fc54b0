/** What an answer of Prometheus may hold; beyond it the answer is refused, not read in part. */
export const prometheusLimits = {
  /** 80,000 devices take some 13 MB in one answer; five times as much is not a fleet. */
  answerBytes: 64 * 1024 * 1024,
  /** Jobs and ranks on 10,000 nodes of 8 GPUs, with room for several on each GPU. */
  series: 400_000,
  /** Prometheus itself answers at most so many points of a series. */
  points: 11_000,
  /** Ours have at most five; relabelling may add some. */
  labels: 64,
  /** A job's name may be a long command line. */
  labelCharacters: 4096,
  /** Of one query. Prometheus itself gives up after 120 s unless told otherwise. */
  seconds: 30,
  /** Queries that are under way at the same time; Prometheus runs 20 unless told otherwise. */
  atOnce: 4,
} as const;
