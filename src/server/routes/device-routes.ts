import { z } from '@hono/zod-openapi';
import type { Daemon } from '../../jobs/daemon/types.js';
import { serverLimits } from '../http/limits.js';
import { deviceHistorySchema, deviceListSchema } from '../schemas/devices.js';
import { jsonAnswer, jsonContent, noBody, nothing } from './answers.js';
import { deviceExample } from './examples.js';
import { type Operation, operation } from './operation.js';

const tag = 'devices';
const defaultHistorySeconds = 600;
const defaultHistoryPoints = 600;

export function deviceOperations(daemon: Daemon): readonly Operation[] {
  return [
    operation({
      method: 'get',
      path: '/devices',
      id: 'listDevices',
      tag,
      summary: 'Devices, with what is reserved of them',
      params: nothing,
      query: nothing,
      body: noBody,
      answers: { 200: jsonContent(deviceListSchema, 'The devices.', { devices: [deviceExample] }) },
      handle: () => jsonAnswer({ devices: daemon.devices() }),
    }),
    operation({
      method: 'get',
      path: '/devices/{id}/history',
      id: 'getDeviceHistory',
      tag,
      summary: 'Use of a device over time',
      params: z.strictObject({
        id: z.string().min(1).max(200).openapi({ description: 'Its id.', example: 'gpu:0' }),
      }),
      query: z.strictObject({
        seconds: z
          .int()
          .min(1)
          .max(serverLimits.historySeconds)
          .optional()
          .openapi({
            description: `How far back; ${defaultHistorySeconds} where it is left out.`,
            example: 60,
          }),
        points: z
          .int()
          .min(1)
          .max(serverLimits.historyPoints)
          .optional()
          .openapi({
            description: `At most so many; ${defaultHistoryPoints} where it is left out.`,
            example: 100,
          }),
      }),
      body: noBody,
      answers: {
        200: jsonContent(deviceHistorySchema, 'The series.', {
          id: 'gpu:0',
          epochMs: [1_767_225_600_000],
          usedMax: [5_368_709_120],
          usedMin: [5_368_709_120],
          alerts: [],
        }),
      },
      errors: [404],
      handle: ({ params, query }) =>
        jsonAnswer(
          daemon.deviceHistory(
            params.id,
            query.seconds ?? defaultHistorySeconds,
            query.points ?? defaultHistoryPoints,
          ),
        ),
    }),
  ];
}
