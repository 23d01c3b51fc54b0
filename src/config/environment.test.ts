import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { nodeRunVariable } from '../engine/node/run-attempt.js';
import { Failure } from '../failure.js';
import {
  configFromVariables,
  configurationVariables,
  configVariables,
  variableOf,
} from './environment.js';

const read = (variables: Record<string, string>) =>
  configFromVariables(new Map(Object.entries(variables)));

describe('variableOf', () => {
  it('follows from the key alone', () => {
    expect(variableOf(['intervalSeconds'])).toBe('PLIMSOLL_INTERVAL_SECONDS');
    expect(variableOf(['alerts', 'gpuWarningPercent'])).toBe('PLIMSOLL_ALERTS_GPU_WARNING_PERCENT');
    expect(variableOf(['alerts', 'deliver', 'log'])).toBe('PLIMSOLL_ALERTS_DELIVER_LOG');
  });

  it('gives each key its own variable, and none that means something else', () => {
    const names = [...configVariables().keys()];
    expect(new Set(names).size).toBe(names.length);
    const environment = Object.fromEntries(names.map((name) => [name, 'x']));
    expect([...configurationVariables(environment).keys()]).toEqual(names);
  });
});

describe('configFromVariables', () => {
  it('reads numbers, lists, switches and texts', () => {
    expect(
      read({
        PLIMSOLL_INTERVAL_SECONDS: '0.5',
        PLIMSOLL_DEVICES: '0, host',
        PLIMSOLL_ALERTS_GPU_WARNING_PERCENT: '70',
        PLIMSOLL_ALERTS_DELIVER_LOG: 'true',
        PLIMSOLL_ALERTS_DELIVER_COMMAND: '["notify", "a b"]',
        PLIMSOLL_SIMULATE: 'leak',
      }),
    ).toEqual({
      intervalSeconds: 0.5,
      devices: ['0', 'host'],
      simulate: 'leak',
      alerts: { gpuWarningPercent: 70, deliver: { log: true, command: ['notify', 'a b'] } },
    });
    expect(read({ PLIMSOLL_ALERTS_DELIVER_LOG: 'alerts.log' })).toEqual({
      alerts: { deliver: { log: 'alerts.log' } },
    });
  });

  it('names the variable, what was there and what is allowed', () => {
    expect(() => read({ PLIMSOLL_INTERVAL_SECONDS: 'often' })).toThrow(
      'the variable PLIMSOLL_INTERVAL_SECONDS: intervalSeconds is "often". It takes a number from 0.01 to 86400.',
    );
    expect(() => read({ PLIMSOLL_ALERTS_GPU_CRITICAL_PERCENT: '101' })).toThrow(
      /PLIMSOLL_ALERTS_GPU_CRITICAL_PERCENT: .* is 101\. It takes a number from 1 to 100\./,
    );
    expect(() => read({ PLIMSOLL_ALERTS_DELIVER_WEBHOOK: 'ftp://x' })).toThrow(/http or https/);
  });

  it('suggests the variable that was meant', () => {
    expect(() => read({ PLIMSOLL_INTERVAL_SECOND: '1' })).toThrow(
      'The variable PLIMSOLL_INTERVAL_SECOND is not a variable that plimsoll reads. Did you mean PLIMSOLL_INTERVAL_SECONDS? If not, unset it.',
    );
  });

  it('answers a configuration or a Failure, whatever the values are', () => {
    const names = [...configVariables().keys()];
    fc.assert(
      fc.property(fc.dictionary(fc.constantFrom(...names), fc.string()), (variables) => {
        const result = attempt(() => read(variables));
        expect(result instanceof Error ? result instanceof Failure : true).toBe(true);
      }),
    );
  });
});

describe('configurationVariables', () => {
  it('leaves out what is no configuration, what is empty, and what is not ours', () => {
    const found = configurationVariables({
      PLIMSOLL_HOME: '/h',
      PLIMSOLL_CONFIG: 'c.json',
      PLIMSOLL_BATCH_SIZE: '32',
      PLIMSOLL_ALERT_KIND: 'leak',
      [nodeRunVariable]: '/run',
      PLIMSOLL_INTERVAL_SECONDS: '',
      PLIMSOLL_SIMULATE: 'leak',
      PATH: '/bin',
    });
    expect([...found]).toEqual([['PLIMSOLL_SIMULATE', 'leak']]);
  });
});

function attempt(action: () => unknown): unknown {
  try {
    return action();
  } catch (error) {
    return error;
  }
}
