/**
 * Reads and writes the recording of requests, their responses and their usage: `recorded-responses.json`.
 *
 *     const exchanges = yield* readRecording
 *     const differences = listDifferences(exchanges[0]?.response, response)
 */
import { Array, Effect, Predicate, Schema, Struct } from "effect"
import { readFileSync, writeFileSync } from "node:fs"
import { valueAt } from "../support/Service.ts"

const file = new URL("recorded-responses.json", import.meta.url)

/** The instances that get requests, in this order. `RequestList.ts` says what each is for. */
export const instanceNames = ["main", "account", "browser"] as const
/** One of `instanceNames`. */
export type InstanceName = typeof instanceNames[number]

const Texts = Schema.Record(Schema.String, Schema.String)

/** A request. In `target`, `raw` and header values, `{basic}` stands for the key of that name. */
const RecordedRequest = Schema.Struct({
  target: Schema.String,
  /** Default: `GET`. */
  method: Schema.optionalKey(Schema.String),
  /** Name of the key in `X-API-Key`. Null: the request has none. */
  key: Schema.NullOr(Schema.String),
  headers: Schema.optionalKey(Texts),
  body: Schema.optionalKey(Schema.String),
  /** Sends these bytes instead, as Latin-1. */
  raw: Schema.optionalKey(Schema.String),
  /** `false` omits the header `Host`. */
  setHost: Schema.optionalKey(Schema.Literal(false)),
  /** Sends the last ETag: alone, after another one, or as a weak one; or sends `*`. */
  ifNoneMatch: Schema.optionalKey(Schema.Literals(["last", "among others", "weak", "*"])),
  /** `X-Request-Id`. Null: the service generates it. Default: a hash of the request, the same in every run. */
  requestId: Schema.optionalKey(Schema.NullOr(Schema.String)),
})
/** A request that can be sent again. */
export type RecordedRequest = typeof RecordedRequest.Type

/** Short bodies are recorded as text. For all others, `length` is the size before compression, in bytes. */
const RecordedBody = Schema.Union([
  Schema.String,
  Schema.Struct({ length: Schema.Int, sha256: Schema.String }),
])
/** A body as text, or its size and digest. */
export type RecordedBody = typeof RecordedBody.Type

const responseFields = {
  status: Schema.Int,
  trailers: Schema.optionalKey(Texts),
  body: RecordedBody,
}

const RecordedResponse = Schema.Struct({ ...responseFields, headers: Texts })
/** A response without the values that differ between runs. */
export type RecordedResponse = typeof RecordedResponse.Type

/** A row of `usage`. */
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
/** What was charged and counted for a request. */
export type RecordedUsage = typeof RecordedUsage.Type

/** A request with everything that it caused. */
export interface Exchange {
  readonly instance: InstanceName
  readonly request: RecordedRequest
  readonly response: RecordedResponse
  /** The row of usage for the request; null if it is not recorded. */
  readonly usage: RecordedUsage | null
}

/** The format of the file, which keeps headers and usage short. */
const Line = Schema.Struct({
  request: RecordedRequest,
  response: Schema.Struct({
    ...responseFields,
    /** The headers that differ from the usual ones. Null: the response lacks a usual header. */
    headers: Schema.Record(Schema.String, Schema.NullOr(Schema.String)),
  }),
  /** The values of `RecordedUsage`, in the order of its fields. */
  usage: Schema.NullOr(Schema.Array(Schema.Union([Schema.String, Schema.Finite, Schema.Boolean, Schema.Null]))),
})

const Recording = Schema.fromJsonString(Schema.Struct({
  /** The headers that most responses with a status have. */
  usualHeaders: Schema.Record(Schema.String, Texts),
  exchanges: Schema.Record(Schema.Literals(instanceNames), Schema.Array(Line)),
}))

const decodeUsage = Schema.decodeUnknownEffect(RecordedUsage)
const decodeRecording = Schema.decodeEffect(Recording)

const usageFields = Struct.keys(RecordedUsage.fields)

/** Reads all exchanges, in the order in which their requests were sent. */
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

/** Returns the headers that more than half of the responses have, with the same value. */
const findUsualHeaders = (responses: ReadonlyArray<RecordedResponse>) => {
  const all = responses.flatMap(({ headers }) => Object.entries(headers))
  const groups = Array.groupBy(all, ([name, value]) => `${name}: ${value}`)
  return Object.fromEntries(
    Object.values(groups).flatMap((group) => group.length * 2 > responses.length ? group.slice(0, 1) : []).toSorted(),
  )
}

const sortByName = <A>(headers: Readonly<Record<string, A>>) =>
  Object.fromEntries(Object.entries(headers).toSorted(([a], [b]) => a < b ? -1 : 1))

/** Writes one exchange per line, so that a changed response is one changed line. */
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

/** Lists the fields whose values differ, with both values. */
export const listDifferences = (recorded: unknown, found: unknown, field = ""): ReadonlyArray<string> => {
  if (!Predicate.isObject(recorded) || !Predicate.isObject(found)) {
    const [before, now] = [JSON.stringify(recorded), JSON.stringify(found)]
    return before === now ? [] : [`  ${field}\n    recorded: ${before}\n    now:      ${now}`]
  }
  return Array.dedupe([...Object.keys(recorded), ...Object.keys(found)]).flatMap((name) =>
    listDifferences(valueAt(recorded, name), valueAt(found, name), field === "" ? name : `${field} ${name}`)
  )
}
