/**
 * Reads and writes `recorded-responses.json`, the recording of requests with their responses and usage.
 *
 *     const exchanges = yield* readRecording
 *     const differences = listDifferences(exchanges[0]?.response, response)
 */
import { Array, Effect, Predicate, Schema, Struct } from "effect"
import { readFileSync, writeFileSync } from "node:fs"
import { valueAt } from "../support/Service.ts"

const file = new URL("recorded-responses.json", import.meta.url)

/** The instances that receive requests, in order. `RequestList.ts` describes the purpose of each. */
export const instanceNames = ["main", "account", "browser"] as const
/** The name of an instance. */
export type InstanceName = typeof instanceNames[number]

const Texts = Schema.Record(Schema.String, Schema.String)

/** A request. In `target`, `raw` and header values, `{basic}` stands for the key with that name. */
const RecordedRequest = Schema.Struct({
  target: Schema.String,
  /** The default is `GET`. */
  method: Schema.optionalKey(Schema.String),
  /** The name of the key in `X-API-Key`. If it is null, no key is sent. */
  key: Schema.NullOr(Schema.String),
  headers: Schema.optionalKey(Texts),
  body: Schema.optionalKey(Schema.String),
  /** Sends these bytes, encoded as Latin-1, instead of a regular request. */
  raw: Schema.optionalKey(Schema.String),
  /** `false` omits the `Host` header. */
  setHost: Schema.optionalKey(Schema.Literal(false)),
  /** Sends the last ETag alone, after another ETag or as a weak ETag, or sends `*`. */
  ifNoneMatch: Schema.optionalKey(Schema.Literals(["last", "among others", "weak", "*"])),
  /**
   * The `X-Request-Id` header. With null, the service generates the id. The default is a hash of the request, which is
   * the same in every run.
   */
  requestId: Schema.optionalKey(Schema.NullOr(Schema.String)),
})
/** A request that can be replayed. */
export type RecordedRequest = typeof RecordedRequest.Type

/**
 * A response body. Short bodies are recorded as text. For longer bodies, `length` is the size before compression, in
 * bytes.
 */
const RecordedBody = Schema.Union([
  Schema.String,
  Schema.Struct({ length: Schema.Int, sha256: Schema.String }),
])
/** A body as text, or the body's size and digest. */
export type RecordedBody = typeof RecordedBody.Type

const responseFields = {
  status: Schema.Int,
  trailers: Schema.optionalKey(Texts),
  body: RecordedBody,
}

const RecordedResponse = Schema.Struct({ ...responseFields, headers: Texts })
/** A response with placeholders for values that differ between runs. */
export type RecordedResponse = typeof RecordedResponse.Type

/** A row of the `usage` table. */
const RecordedUsage = Schema.Struct({
  account: Schema.String,
  endpoint: Schema.String,
  status_code: Schema.Int,
  records_returned: Schema.Int,
  bytes: Schema.Int,
  cost_microdollars: Schema.Int,
  cached: Schema.Boolean,
  deprecated: Schema.Boolean,
  via: Schema.NullOr(Schema.String),
  request_count: Schema.Int,
})
/** The usage and cost recorded for a request. */
export type RecordedUsage = typeof RecordedUsage.Type

/** A request with its response and usage. */
export interface Exchange {
  readonly instance: InstanceName
  readonly request: RecordedRequest
  readonly response: RecordedResponse
  /** The usage row for the request, or null if the request is not recorded as usage. */
  readonly usage: RecordedUsage | null
}

/** The file format of an exchange. Headers and usage are stored compactly. */
const Line = Schema.Struct({
  request: RecordedRequest,
  response: Schema.Struct({
    ...responseFields,
    /** Headers that differ from the usual ones. Null means that the response lacks a usual header. */
    headers: Schema.Record(Schema.String, Schema.NullOr(Schema.String)),
  }),
  /** The values of `RecordedUsage`, in field order. */
  usage: Schema.NullOr(Schema.Array(Schema.Union([Schema.String, Schema.Finite, Schema.Boolean, Schema.Null]))),
})

const Recording = Schema.fromJsonString(Schema.Struct({
  /** For each status, the headers that most responses with this status have. */
  usualHeaders: Schema.Record(Schema.String, Texts),
  exchanges: Schema.Record(Schema.Literals(instanceNames), Schema.Array(Line)),
}))

const decodeUsage = Schema.decodeUnknownEffect(RecordedUsage)
const decodeRecording = Schema.decodeEffect(Recording)

const usageFields = Struct.keys(RecordedUsage.fields)

/** Reads all exchanges in the order in which the requests were sent. */
export const readRecording = Effect.gen(function* () {
  const { exchanges, usualHeaders } = yield* decodeRecording(readFileSync(file, "utf8"))
  const readLine = Effect.fnUntraced(function* ({ request, response, usage }: typeof Line.Type) {
    const headers = Object.entries({ ...usualHeaders[response.status], ...response.headers })
    return {
      request,
      response: {
        ...response,
        headers: Object.fromEntries(headers.flatMap(([name, value]) => value === null ? [] : [[name, value]])),
      },
      usage: usage === null
        ? null
        : yield* decodeUsage(Object.fromEntries(usageFields.map((name, index) => [name, usage[index]]))),
    }
  })
  const found = yield* Effect.forEach(
    instanceNames,
    (instance) =>
      Effect.forEach(
        exchanges[instance],
        (line) => Effect.map(readLine(line), (read): Exchange => ({ instance, ...read })),
      ),
  )
  return found.flat()
})

/** Returns the headers that have the same value in more than half of the responses. */
const findUsualHeaders = (responses: ReadonlyArray<RecordedResponse>) => {
  const all = responses.flatMap(({ headers }) => Object.entries(headers))
  const groups = Array.groupBy(all, ([name, value]) => `${name}: ${value}`)
  return Object.fromEntries(
    Object.values(groups).flatMap((group) => group.length * 2 > responses.length ? group.slice(0, 1) : []).toSorted(),
  )
}

const sortByName = <A>(headers: Readonly<Record<string, A>>) =>
  Object.fromEntries(Object.entries(headers).toSorted(([a], [b]) => a < b ? -1 : 1))

/** Writes one exchange per line, so that a changed response appears as one changed line in a diff. */
export const writeRecording = (exchanges: ReadonlyArray<Exchange>) => {
  const byStatus = Array.groupBy(exchanges.map(({ response }) => response), ({ status }) => String(status))
  const usualHeaders = Object.fromEntries(
    Object.entries(byStatus).map(([status, responses]) => [status, findUsualHeaders(responses)]),
  )
  const formatLine = ({ request, response, usage }: Exchange) => {
    const usual = usualHeaders[response.status] ?? {}
    const missing = Object.keys(usual).filter((name) => !(name in response.headers)).map((name) => [name, null])
    const unusual = Object.entries(response.headers).filter(([name, value]) => usual[name] !== value)
    const { body, status, trailers } = response
    return JSON.stringify({
      request,
      response: {
        status,
        headers: sortByName(Object.fromEntries([...missing, ...unusual])),
        ...(trailers === undefined ? {} : { trailers }),
        body,
      },
      usage: usage === null ? null : usageFields.map((name) => usage[name]),
    })
  }
  const usual = Object.entries(usualHeaders).map(([status, headers]) => `"${status}":${JSON.stringify(headers)}`)
  const lists = instanceNames.map((name) =>
    `"${name}":[\n${exchanges.filter(({ instance }) => instance === name).map(formatLine).join(",\n")}\n]`
  )
  writeFileSync(file, `{"usualHeaders":{\n${usual.join(",\n")}\n},"exchanges":{\n${lists.join(",\n")}\n}}\n`)
}

/** Lists the fields whose values differ, with the recorded and the current value. */
export const listDifferences = (recorded: unknown, found: unknown, field = ""): ReadonlyArray<string> => {
  if (!Predicate.isObject(recorded) || !Predicate.isObject(found)) {
    const [before, now] = [JSON.stringify(recorded), JSON.stringify(found)]
    return before === now ? [] : [`  ${field}\n    recorded: ${before}\n    now:      ${now}`]
  }
  return Array.dedupe([...Object.keys(recorded), ...Object.keys(found)]).flatMap((name) =>
    listDifferences(valueAt(recorded, name), valueAt(found, name), field === "" ? name : `${field} ${name}`)
  )
}
