import type { IncomingMessage, ServerResponse } from 'node:http';
import { type RouteConfig, z } from '@hono/zod-openapi';
import type { SchemaNode } from '../../config/schema.js';
import { Failure } from '../../failure.js';
import { versioned } from '../../files/document-version.js';
import type { WorkloadRequest } from '../../plan/answers/workload-request.js';
import type { AuditParts } from '../access/audit-log.js';
import type { Identified } from '../access/identify.js';
import type { Permission } from '../access/permissions.js';
import type { ErrorStatus } from '../errors/error-status.js';
import { serverLimits } from '../http/limits.js';
import { bodyPart, checkable, checkInput, queryPart } from '../input/check-input.js';
import { type IncomingBytes, readJsonBody } from '../input/read-body.js';
import { errorSchema } from '../schemas/common.js';

/** One request, as far as it goes beyond its input. */
export interface Call {
  readonly incoming: IncomingMessage;
  readonly outgoing: ServerResponse;
  /** Aborts when the client leaves before it has its answer. */
  readonly signal: AbortSignal;
  /** The user who asks; the owner, where no token is needed. */
  readonly who: Identified;
  /** Adds parts to the audit log's entry of this request. */
  readonly about: (parts: AuditParts) => void;
  /** All bodies that are coming in. */
  readonly bodies: IncomingBytes;
}

/** The answer of a handler; `sent` if it has answered the client itself. */
export type Answer =
  | 'sent'
  | {
      readonly status: number;
      readonly body: string | Uint8Array<ArrayBuffer> | null;
      readonly headers: Readonly<Record<string, string>>;
    };

/** One thing that can be asked: how it is declared and who answers it. */
export interface Operation {
  readonly route: RouteConfig;
  /** `/jobs/:id`, as routers and metrics have it. */
  readonly pattern: string;
  /** Needs no token. */
  readonly open: boolean;
  readonly id: string;
  readonly needs: Permission;
  /** Its name in the audit log; without one it is only logged when it is refused. */
  readonly audit: string | undefined;
  answer(
    params: Readonly<Record<string, string>>,
    query: URLSearchParams,
    call: Call,
  ): Promise<Answer>;
}

interface Declaration<
  Params extends z.ZodObject,
  Query extends z.ZodObject,
  Body extends z.ZodType,
> {
  readonly method: 'get' | 'post' | 'delete';
  /** `/jobs/{id}`, as OpenAPI has it. */
  readonly path: string;
  readonly id: string;
  readonly tag: string;
  readonly summary: string;
  readonly description?: string;
  readonly params: Params;
  readonly query: Query;
  /** `noBody`, but for POST. */
  readonly body: { readonly schema: Body; readonly example: z.input<Body> };
  readonly answers: RouteConfig['responses'];
  /** Beside those that every request can meet. */
  readonly errors?: readonly ErrorStatus[];
  readonly open?: boolean;
  /** `read` where it is left out. */
  readonly needs?: Permission;
  readonly audit?: string;
  readonly maxBodyBytes?: number;
  handle(
    input: {
      readonly params: z.output<Params>;
      readonly query: z.output<Query>;
      readonly body: z.output<Body>;
    },
    call: Call,
  ): Answer | Promise<Answer>;
}

/** Each route is declared once: the same schemas check what comes and make the document. */
export function operation<
  Params extends z.ZodObject,
  Query extends z.ZodObject,
  Body extends z.ZodType,
>(declared: Declaration<Params, Query, Body>): Operation {
  const paramsCheck = checkable(declared.params);
  const queryCheck = checkable(declared.query);
  const bodyCheck = checkable(declared.body.schema);
  return {
    route: routeOf(declared),
    pattern: declared.path.replaceAll(/\{(\w+)\}/g, ':$1'),
    open: declared.open ?? false,
    id: declared.id,
    needs: declared.needs ?? 'read',
    audit: declared.audit,
    async answer(givenParams, givenQuery, call) {
      const params = checkInput(givenParams, paramsCheck, queryPart);
      const query = checkInput(queryValues(givenQuery, queryCheck.node), queryCheck, queryPart);
      const sent = takesBody(declared)
        ? await readJsonBody(call.incoming, {
            maxBytes: declared.maxBodyBytes ?? serverLimits.bodyBytes,
            bodies: call.bodies,
          })
        : undefined;
      const body = checkInput(sent, bodyCheck, bodyPart);
      return declared.handle({ params, query, body }, call);
    },
  };
}

/** Tells whether a method takes a body; other methods' bodies are ignored. */
function takesBody({ method }: { readonly method: string }): boolean {
  return method === 'post';
}

const meanings: Readonly<Record<ErrorStatus, string>> = {
  400: 'The request is wrong; the answer says where, and what is taken there.',
  401: 'No token, or a wrong one.',
  403: 'A Host or Origin that is not of this server; or the role of the user does not allow it.',
  404: 'There is none.',
  405: 'Not with this method.',
  408: 'The request came too slowly.',
  409: 'The job is in a state in which this cannot be.',
  413: `The body has more bytes than are taken: ${serverLimits.bodyBytes}, but for a session.`,
  414: 'The address is too long.',
  415: 'The body is not application/json, or is compressed.',
  422: 'It was understood, and could not be done.',
  429: 'Too many wrong tokens.',
  431: 'The headers are too large.',
  500: 'A fault of the server.',
  501: 'Something is missing on the machine of the server, such as Python with torch.',
  503: 'Too much at once, or the server is closing: ask again after Retry-After seconds.',
  507: 'The disk is full, or cannot be written.',
};

function routeOf<Params extends z.ZodObject, Query extends z.ZodObject, Body extends z.ZodType>(
  declared: Declaration<Params, Query, Body>,
): RouteConfig {
  const { method, path, id, tag, summary, description, params, query, body } = declared;
  const always: readonly ErrorStatus[] = declared.open
    ? [400, 403, 500]
    : [400, 401, 403, 429, 500];
  const ofBody: readonly ErrorStatus[] = takesBody(declared) ? [413, 415, 503] : [];
  const statuses = [...new Set([...always, ...ofBody, ...(declared.errors ?? [])])].toSorted(
    (a, b) => a - b,
  );
  return {
    method,
    path,
    operationId: id,
    tags: [tag],
    summary,
    ...(description !== undefined && { description }),
    ...(declared.open && { security: [] }),
    request: {
      ...(Object.keys(params.shape).length > 0 && { params }),
      ...(Object.keys(query.shape).length > 0 && { query }),
      ...(takesBody(declared) && {
        body: {
          required: true,
          content: { 'application/json': { schema: body.schema, example: body.example } },
        },
      }),
    },
    responses: {
      ...declared.answers,
      ...Object.fromEntries(
        statuses.map((status) => [
          status,
          {
            description: meanings[status],
            content: { 'application/json': { schema: errorSchema } },
          },
        ]),
      ),
    },
  };
}

/**
 * Reads the query of an address, each value in the type of its option: numbers as numbers, lists by
 * their commas. Unreadable values stay text, and the check reports them.
 */
export function queryValues(
  query: URLSearchParams,
  { properties = {} }: SchemaNode,
): Record<string, unknown> {
  const values = new Map<string, unknown>();
  for (const [name, text] of query) {
    if (values.has(name)) throw saidTwice(name);
    values.set(name, typedValue(text, Object.hasOwn(properties, name) ? properties[name] : {}));
  }
  return Object.fromEntries(values);
}

function typedValue(text: string, node: unknown): unknown {
  const type = typeof node === 'object' && node !== null && 'type' in node ? node.type : 'string';
  if (type === 'array') return text.split(',');
  if (type === 'integer' && /^-?\d{1,16}$/.test(text)) return Number(text);
  if (type === 'number' && /^-?\d{1,16}(\.\d{1,16})?$/.test(text)) return Number(text);
  return text;
}

function saidTwice(name: string): Failure {
  return new Failure({
    kind: 'input',
    code: 'bad-option',
    fact: `The option ${JSON.stringify(name.slice(0, 60))} is given twice in the address.`,
    next: 'Leave one out; several values of one option are joined by commas.',
  });
}

/** Fields of `POST /plan` beside the workload. */
interface PlanAsked extends WorkloadRequest {
  readonly memoryBytes?: number | undefined;
  readonly gpus?: number | undefined;
  readonly maxBatch?: boolean | undefined;
}

/** How errors and notes name what was asked for: as a request does, or as the forms of the dashboard. */
export const answerWords = ['request', 'form'] as const;
export type AnswerWords = (typeof answerWords)[number];

/** Makes estimates and plans: the answers of `plimsoll estimate --json` and `plan --json`. */
export interface Answers {
  estimate(request: WorkloadRequest, signal: AbortSignal, words?: AnswerWords): Promise<object>;
  plan(request: PlanAsked, signal: AbortSignal, words?: AnswerWords): Promise<object>;
  /** The values that are taken for what a request leaves out. */
  estimateAssumptions(request: WorkloadRequest, signal: AbortSignal): Promise<object>;
  planAssumptions(request: PlanAsked, signal: AbortSignal): Promise<object>;
  /** The models and cards that a request can name. */
  names(): Promise<object>;
}

/** Of a route that takes nothing: whatever stands there is a mistake worth telling. */
export const nothing = z.strictObject({});
export const noBody = { schema: z.undefined(), example: undefined };

export function jsonAnswer(
  value: object,
  status = 200,
  headers: Readonly<Record<string, string>> = {},
): Answer {
  return {
    status,
    body: JSON.stringify(versioned(value)),
    // It is true now; caches must not keep it.
    headers: { 'content-type': 'application/json', 'cache-control': 'no-store', ...headers },
  };
}

/** The declaration of an answer in JSON. */
export function jsonContent(schema: z.ZodType, description: string, example: object) {
  const content = { schema, example: versioned(example) };
  return { description, content: { 'application/json': content } };
}
