import { type Risk, risks } from '../../watch/types.js';

/** A risk below this is not worth interrupting a person for. */
const leastRisk: Risk = 'medium';
/** A risk must stay lower for this long before its return is news again. */
const calmSeconds = 15;

export type OomAlarmReason = 'risk-rose' | 'threshold-passed';

export interface OomReading {
  readonly atSeconds: number;
  readonly usedPercent: number | 'unknown';
  readonly risk: Risk | 'unknown';
}

/**
 * Decides when to speak up about one device: when the risk rises, and when use passes the
 * threshold. Neither repeats while the reading wavers around its limit.
 */
export class OomAlarm {
  readonly #thresholdPercent: number;
  readonly #hysteresisPercent: number;
  #above = false;
  #announced: Risk = 'none';
  #lowerSince: number | undefined;

  constructor(thresholdPercent: number, hysteresisPercent: number) {
    this.#thresholdPercent = thresholdPercent;
    this.#hysteresisPercent = hysteresisPercent;
  }

  take(reading: OomReading): OomAlarmReason | undefined {
    const passed = this.#takeUse(reading.usedPercent);
    const rose = this.#takeRisk(reading.risk, reading.atSeconds);
    if (rose) return 'risk-rose';
    return passed ? 'threshold-passed' : undefined;
  }

  #takeUse(percent: number | 'unknown'): boolean {
    if (percent === 'unknown') return false;
    if (this.#above) {
      this.#above = percent > this.#thresholdPercent - this.#hysteresisPercent;
      return false;
    }
    this.#above = percent > this.#thresholdPercent;
    return this.#above;
  }

  #takeRisk(risk: Risk | 'unknown', atSeconds: number): boolean {
    if (risk === 'unknown') return false;
    if (rank(risk) > rank(this.#announced)) {
      this.#lowerSince = undefined;
      this.#announced = risk;
      return rank(risk) >= rank(leastRisk);
    }
    if (risk === this.#announced) {
      this.#lowerSince = undefined;
      return false;
    }
    this.#lowerSince ??= atSeconds;
    if (atSeconds - this.#lowerSince >= calmSeconds) {
      this.#announced = risk;
      this.#lowerSince = undefined;
    }
    return false;
  }
}

function rank(risk: Risk): number {
  return risks.indexOf(risk);
}
