import { z } from '@hono/zod-openapi';
import type { Metrics } from '../metrics/metrics.js';
import { noBody, nothing, type Operation, operation } from './operation.js';

const tag = 'server';

export function metricsOperation(metrics: Metrics): Operation {
  return operation({
    method: 'get',
    path: '/metrics',
    id: 'getMetrics',
    tag,
    summary: 'Figures for Prometheus',
    params: nothing,
    query: nothing,
    body: noBody,
    answers: {
      200: {
        description: 'In the text format of Prometheus.',
        content: {
          'text/plain': {
            schema: z.string(),
            example: '# TYPE plimsoll_jobs gauge\nplimsoll_jobs{state="running"} 1\n',
          },
        },
      },
    },
    handle: async () => ({
      status: 200,
      body: await metrics.text(),
      headers: { 'content-type': metrics.contentType, 'cache-control': 'no-store' },
    }),
  });
}

/** `text` is called when somebody asks: by then all routes are declared. */
export function documentOperation(text: () => string): Operation {
  return operation({
    method: 'get',
    path: '/openapi.json',
    id: 'getDocument',
    tag,
    summary: 'This document',
    params: nothing,
    query: nothing,
    body: noBody,
    answers: {
      200: {
        description: 'OpenAPI 3.1.',
        content: { 'application/json': { schema: z.looseObject({ openapi: z.string() }) } },
      },
    },
    handle: () => ({
      status: 200,
      body: text(),
      headers: { 'content-type': 'application/json', 'cache-control': 'no-cache' },
    }),
  });
}
