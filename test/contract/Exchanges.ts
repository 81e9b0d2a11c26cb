/**
 * Sends the recorded requests, and normalizes their responses and usage so that every run yields the same values.
 *
 *     const requests = [{ target: "/v1/news?limit=1", key: "basic" }]
 *     const [sent] = yield* sendRequests(port, new Map([["basic", key]]), requests, "main")
 *     assert.strictEqual(sent?.response.headers["x-request-id"], "{sent}")
 */
import { Array, Data, Effect } from "effect"
import { SqlClient } from "effect/sql"
import { createHash } from "node:crypto"
import { Agent, request as openRequest } from "node:http"
import { exchangeBytes } from "../support/RawSockets.ts"
import { decompressBody } from "../support/ServiceInstances.ts"
import type { RecordedBody, RecordedRequest, RecordedResponse, RecordedUsage } from "./Recording.ts"

/**
 * Sends a request as the account `scout`, whose usage is not part of the recording, and returns the response's JSON.
 */
export type SampleReader = (target: string) => Effect.Effect<unknown, RequestFailed>

/** A request did not get exactly one complete response, or got an unexpected status. */
export class RequestFailed extends Data.TaggedError("RequestFailed")<{ readonly message: string }> {}

interface ReceivedResponse {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly trailers: Readonly<Record<string, string>>
  readonly bytes: Buffer
}

/** Collects header names and values from Node's flat list, in which they alternate. */
const toHeaders = (raw: ReadonlyArray<string>) => {
  const headers: Record<string, string> = {}
  for (const [name = "", value = ""] of Array.chunksOf(raw, 2)) {
    const key = name.toLowerCase()
    headers[key] = key in headers ? `${headers[key]} | ${value}` : value
  }
  return headers
}

interface SendOptions extends Pick<RecordedRequest, "body" | "method" | "target"> {
  readonly setHost?: boolean
  readonly headers: Readonly<Record<string, string>>
}

/** Returns a client that sends requests one after another over a single connection. */
const makeSender = (port: number) =>
  Effect.map(
    Effect.acquireRelease(
      Effect.sync(() => new Agent({ keepAlive: true, maxSockets: 1 })),
      (agent) => Effect.sync(() => agent.destroy()),
    ),
    (agent) => ({ body, headers, method = "GET", setHost = true, target }: SendOptions) =>
      Effect.callback<ReceivedResponse, RequestFailed>((resume) => {
        const fail = ({ message }: Error) =>
          resume(Effect.fail(new RequestFailed({ message: `${method} ${target}: ${message}` })))
        const options = { host: "127.0.0.1", port, path: target, method, headers, setHost, agent }
        const outgoing = openRequest(options, (response) => {
          const chunks: Array<Buffer> = []
          response.on("data", (chunk: Buffer) => chunks.push(chunk)).on("error", fail).on("end", () =>
            resume(Effect.succeed({
              status: response.statusCode ?? 0,
              headers: toHeaders(response.rawHeaders),
              trailers: toHeaders(response.rawTrailers),
              bytes: Buffer.concat(chunks),
            })))
        })
        outgoing.on("error", fail).end(body)
      }),
  )

/** Sends bytes over a separate connection, which the service then closes. */
const sendRaw = Effect.fnUntraced(function* (port: number, raw: string) {
  const responses = yield* exchangeBytes(port, raw)
  const [response] = responses
  if (response === undefined || responses.length !== 1) {
    return yield* new RequestFailed({ message: `${JSON.stringify(raw)} got ${responses.length} responses` })
  }
  const received: ReceivedResponse = {
    status: response.status,
    headers: response.headers,
    trailers: {},
    bytes: Buffer.from(response.text),
  }
  return received
})

/** A request with its response, in recordable form. */
export interface SentExchange {
  /** The response's `X-Request-Id`. It is the same in every run unless the request specifies otherwise. */
  readonly requestId: string
  readonly request: RecordedRequest
  readonly response: RecordedResponse
  /** Errors in values that are not recorded because they differ between runs. */
  readonly problems: ReadonlyArray<string>
}

const sha256 = (bytes: string | Buffer) => createHash("sha256").update(bytes).digest("base64url")

const maxTextLength = 400

/**
 * The rate limit of the tiers `basic` and `ultimate`. It is so high that the count of remaining requests always has six
 * digits.
 */
export const generousLimit = 900_000

const isBetween = (text: string | undefined, low: number, high: number) =>
  text !== undefined && /^\d+$/.test(text) && Number(text) >= low && Number(text) <= high

const generatedId = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

/**
 * Returns whether the body is a documentation page or part of the changelog, whose text changes independently of the
 * API.
 */
const isEdited = ({ target }: RecordedRequest, { headers, status }: ReceivedResponse) =>
  headers["content-type"]?.startsWith("text/html") === true || (target.startsWith("/v1/changelog") && status < 400)

/** The ETags that one instance has sent so far. */
interface TagMemory {
  /** The ETag of the last response that had one. */
  last: string
  /** The ETag of each body. The key consists of the path, the encoding and the body's digest. */
  readonly tagsByBody: Map<string, string>
  /** The encoding and digest of the body for each ETag. */
  readonly bodiesByTag: Map<string, string>
}

const makeTagMemory = (): TagMemory => ({ last: `"none"`, tagsByBody: new Map(), bodiesByTag: new Map() })

/** Replaces a header's value with a placeholder if the value is correct. Otherwise reports the value as a problem. */
type ReplaceHeader = (name: string, isRight: boolean, placeholder: string) => void

/** Replaces the values of headers that differ between runs, except the ETag. */
const replaceChangingHeaders = (
  headers: Record<string, string>,
  replace: ReplaceHeader,
  sentId: string | null,
  status: number,
) => {
  const { date, "x-request-id": requestId = "" } = headers
  if (date !== undefined) replace("date", Number.isFinite(Date.parse(date)), "{date}")

  if (sentId === null || requestId !== sentId) replace("x-request-id", generatedId.test(requestId), "{generated}")
  else headers["x-request-id"] = "{sent}"

  // The buckets of accounts with the generous limit are refilled while requests are sent.
  if (headers["x-ratelimit-limit"] === String(generousLimit)) {
    replace(
      "x-ratelimit-remaining",
      isBetween(headers["x-ratelimit-remaining"], generousLimit - 5_000, generousLimit - 1),
      "{remaining}",
    )
  }
  if (headers["x-ratelimit-reset"] !== undefined) {
    replace("x-ratelimit-reset", isBetween(headers["x-ratelimit-reset"], 1, 60), "{seconds}")
  }
  // The cursor of a usage row depends on when its batch was written.
  if (headers["link"] !== undefined) {
    headers["link"] = headers["link"].replace(/([?&]after=)\d{13}(?:\.\d+){4}(?=[&>])/, "$1{place}")
  }
  if (status === 429) replace("retry-after", isBetween(headers["retry-after"], 1, 60), "{seconds}")
}

/**
 * Remembers the ETag of a response. `body` identifies its body by the content encoding and a digest. Returns whether
 * the ETag is correct: equal bodies of one path have equal ETags, different bodies have different ETags, and a 304
 * repeats the ETag that was sent.
 */
const checkTag = (request: RecordedRequest, status: number, etag: string, body: string, memory: TagMemory) => {
  const { pathname } = new URL(request.target, "http://localhost")
  const isFull = status === 200 && request.method !== "HEAD"
  const [knownTag, knownBody] = [memory.tagsByBody.get(`${pathname} ${body}`), memory.bodiesByTag.get(etag)]
  const isRight = /^(W\/)?"[^"]+"$/.test(etag) && (
    isFull
      ? (knownTag ?? etag) === etag && (knownBody ?? body) === body
      : status !== 304 || etag === memory.last || request.ifNoneMatch !== "last"
  )
  if (isFull) {
    memory.tagsByBody.set(`${pathname} ${body}`, etag)
    memory.bodiesByTag.set(etag, body)
  }
  memory.last = etag
  return isRight
}

/** Checks the values that differ between runs and replaces them with placeholders. All other values stay unchanged. */
const normalize = (
  request: RecordedRequest,
  sentId: string | null,
  received: ReceivedResponse,
  memory: TagMemory,
) => {
  const headers: Record<string, string> = { ...received.headers }
  const problems: Array<string> = []
  const replace: ReplaceHeader = (name, isRight, placeholder) => {
    if (isRight) headers[name] = placeholder
    else problems.push(`  response headers ${name}\n    unexpected: ${headers[name]}`)
  }
  const { etag, "x-request-id": requestId = "" } = headers
  replaceChangingHeaders(headers, replace, sentId, received.status)

  const encoding = headers["content-encoding"]
  const isText = !/parquet/.test(headers["content-type"] ?? "")
  const decoded = request.raw === undefined ? decompressBody(encoding, received.bytes) : received.bytes
  // The length depends on the compressor's version. The decompressed body is compared instead.
  if (encoding !== undefined && headers["content-length"] !== undefined) headers["content-length"] = "{compressed}"

  if (etag !== undefined) {
    const isRight = checkTag(request, received.status, etag, `${encoding ?? ""} ${sha256(decoded)}`, memory)
    replace("etag", isRight, "{tag}")
  }

  let text = decoded.toString(isText ? "utf8" : "latin1")
  if (headers["x-request-id"] === "{generated}") text = text.replaceAll(requestId, "{generated}")
  text = text.replace(/(rate_limit_remaining\\*":)8\d{5}\b/g, "$1{remaining}")
  if (isEdited(request, received)) {
    text = text === "" ? "" : "{edited}"
    if (headers["content-length"] !== undefined) headers["content-length"] = "{length}"
  }
  const body: RecordedBody = text.length <= maxTextLength && isText ? text : {
    length: decoded.length,
    sha256: sha256(isText ? text : decoded),
  }
  const { status, trailers } = received
  const response: RecordedResponse = {
    status,
    headers,
    ...(Object.keys(trailers).length === 0 ? {} : { trailers }),
    body,
  }
  return { response, problems, requestId }
}

/** Formats the If-None-Match header for the last ETag. */
const formatCondition = (form: RecordedRequest["ifNoneMatch"], tag: string) =>
  form === "last" ? tag : form === "among others" ? `"other", ${tag}` : form === "weak" ? `W/${tag}` : "*"

/** Describes a request in one line for error messages. */
export const describeRequest = ({ body, headers, ifNoneMatch, key, method = "GET", raw, target }: RecordedRequest) =>
  [
    raw === undefined ? `${method} ${target}` : JSON.stringify(raw),
    key === null ? "" : `with the key ${key}`,
    ifNoneMatch === undefined ? "" : `If-None-Match: ${ifNoneMatch}`,
    ...Object.entries(headers ?? {}).map(([name, value]) => `${name}: ${value}`),
    body ?? "",
  ].filter((part) => part !== "").join(" ")

/** Sends requests one after another to the instance at the given port. `keys` maps names to API keys. */
export const sendRequests = Effect.fnUntraced(function* (
  port: number,
  keys: ReadonlyMap<string, string>,
  requests: ReadonlyArray<RecordedRequest>,
  instance: string,
) {
  const send = yield* makeSender(port)
  const memory = makeTagMemory()
  const repeats = new Map<string, number>()
  const insertKeys = (text: string) => text.replace(/\{([^{}]+)\}/g, (all, name: string) => keys.get(name) ?? all)
  return yield* Effect.forEach(
    requests,
    Effect.fnUntraced(function* (request) {
      const text = describeRequest(request)
      const repeat = (repeats.get(text) ?? 0) + 1
      repeats.set(text, repeat)
      // The id is the same in every run and unique among an instance's requests.
      const id = `${instance}-${sha256(`${text} ${repeat}`).replaceAll(/[^A-Za-z0-9]/g, "x").slice(0, 16)}`
      const { body, headers = {}, ifNoneMatch, key, method, raw, requestId = id, setHost, target } = request
      const received = raw === undefined
        ? yield* send({
          target: insertKeys(target),
          ...(method === undefined ? {} : { method }),
          ...(setHost === undefined ? {} : { setHost }),
          ...(body === undefined ? {} : { body }),
          headers: {
            ...(key === null ? {} : { "X-API-Key": keys.get(key) ?? key }),
            ...(requestId === null ? {} : { "X-Request-Id": requestId }),
            ...(ifNoneMatch === undefined ? {} : { "If-None-Match": formatCondition(ifNoneMatch, memory.last) }),
            ...Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, insertKeys(value)])),
          },
        })
        : yield* sendRaw(port, insertKeys(raw))
      const sentId = raw === undefined ? requestId : null
      const sent: SentExchange = { request, ...normalize(request, sentId, received, memory) }
      return sent
    }),
  )
}, Effect.scoped)

/** Reads the stored usage of all accounts except `scout`, ordered by the time at which each request ended. */
export const readUsage = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<RecordedUsage & { readonly request_id: string }>`
    select request_id, accounts.name as account, endpoint, status_code::int, records_returned, bytes::float8,
      cost_microdollars::float8, cached, deprecated, via, request_count::int
    from usage_requests join accounts using (account_id) where accounts.name <> 'scout' order by requested_at, writer, sequence, part, place
  `
  return rows.map(({ request_id, ...usage }) => ({ request_id, usage }))
})

/** Creates a `SampleReader` for an instance. */
export const makeSampleReader = (port: number, key: string) =>
  Effect.map(makeSender(port), (send): SampleReader => (target) =>
    Effect.flatMap(
      send({ target, headers: { "X-API-Key": key } }),
      ({ bytes, status }) =>
        status === 200
          ? Effect.sync((): unknown => JSON.parse(bytes.toString("utf8")))
          : Effect.fail(new RequestFailed({ message: `${target} got ${status}: ${bytes.toString("utf8", 0, 300)}` })),
    ))
