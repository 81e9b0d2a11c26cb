/** What the service refused, for people: its own message, what belongs to it, and what to do. */
import { Option, Predicate, Schema } from "effect"
import { formatSymbolHistory, parseExactJson } from "./ResponseRows.ts"

/** The service answered, but not with data. */
export class Refused extends Schema.TaggedError<Refused>()("Refused", { message: Schema.String }) {}

/** No service answered at all. */
export class NotAnswered extends Schema.TaggedError<NotAnswered>()("NotAnswered", { message: Schema.String }) {}

/** §7.2. */
const Answer = Schema.Struct({
  error: Schema.Struct({
    code: Schema.String,
    message: Schema.String,
    details: Schema.optionalKey(Schema.Unknown),
  }),
  request_id: Schema.optionalKey(Schema.String),
})

const decode = Schema.decodeUnknownOption(Answer)

const listed = (details: unknown, name: string): ReadonlyArray<unknown> => {
  const list = Predicate.hasProperty(details, name) ? details[name] : undefined
  return Array.isArray(list) ? list : []
}

const of = (value: unknown, name: string) =>
  Predicate.hasProperty(value, name) && typeof value[name] === "string" ? value[name] : undefined

/** §4.1: the chains among which the service does not choose. */
const candidates = (details: unknown, arrow: string) =>
  listed(details, "candidates").map((candidate) => {
    const history = Predicate.hasProperty(candidate, "history") ? candidate.history : undefined
    const whose = [of(candidate, "company_name"), of(candidate, "cik") && `CIK ${of(candidate, "cik")}`]
    return `  ${formatSymbolHistory(history, arrow) ?? of(candidate, "current_ticker") ?? "?"}   ${
      whose.filter((part) => part !== undefined).join(", ")
    }`.trimEnd()
  })

/** The message has them too, in one line, which is enough for one. */
const fields = (details: unknown) => {
  const found = listed(details, "fields")
  return found.length < 2 ? [] : found.map((field) => `  ${of(field, "field") ?? "?"}: ${of(field, "reason") ?? ""}`)
}

const whereKeysComeFrom =
  "A key is read from --key-file, else from TICKERLINE_KEY, else, for this machine's embedded database, from its " +
  "demo key. `tickerline keys create` makes one."

interface Response {
  readonly status: number
  readonly text: string
  readonly retryAfter: string | undefined
}

const advice = ({ retryAfter, status }: Response) => {
  if (status === 401) return [whereKeysComeFrom]
  if (retryAfter !== undefined) return [`Try again in ${retryAfter} s.`]
  return []
}

/** `arrow` is as the terminal can show it. */
export const refusal = (response: Response, arrow: string) => {
  const known = Option.flatMap(parseExactJson(response.text), decode)
  const lines = Option.match(known, {
    onNone: () => [`The answer is ${response.status}, and not of Tickerline: ${response.text.slice(0, 200)}`],
    onSome: ({ error, request_id }) => [
      `${response.status} ${error.code}: ${error.message}`,
      ...fields(error.details),
      ...candidates(error.details, arrow),
      ...(response.status >= 500 && request_id !== undefined ? [`request_id ${request_id}`] : []),
    ],
  })
  return new Refused({ message: [...lines, ...advice(response)].join("\n") })
}
