/** Requests to a running service, one page or all of them. */
import { Console, Duration, Effect, Option, Redacted } from "effect"
import { HttpClient, type HttpClientError, HttpClientRequest, type HttpClientResponse } from "effect/http"
import { extractRows, parseExactJson, type ResponseRow } from "./ResponseRows.ts"
import { NotAnswered, refusal } from "./QueryErrors.ts"

export interface Question {
  readonly base: string
  readonly path: string
  readonly search: string
  readonly key: Option.Option<Redacted.Redacted>
  readonly arrow: string
}

const patience = Duration.minutes(1)

const notThere = (base: string, error: HttpClientError.HttpClientError) =>
  new NotAnswered({
    message: error.reason._tag === "TransportError"
      ? `Nothing answers at ${base}. Start the service (npm start), or name where it is with --url or BASE_URL. ` +
        "`tickerline doctor` looks for what keeps it from starting."
      : `${base} does not answer in HTTP as it should.`,
  })

const silent = (base: string) =>
  new NotAnswered({ message: `${base} has not answered for ${Duration.toSeconds(patience)} seconds.` })

export interface Answer {
  readonly text: string
  readonly headers: HttpClientResponse.HttpClientResponse["headers"]
}

export const ask = Effect.fnUntraced(function* ({ arrow, base, key, path, search }: Question) {
  const request = HttpClientRequest.get(`${base}${path}${search}`, { headers: { accept: "application/json" } })
  const response = yield* HttpClient.execute(
    Option.match(key, { onNone: () => request, onSome: (one) => HttpClientRequest.bearerToken(request, one) }),
  ).pipe(
    Effect.flatMap((response) => Effect.map(response.text, (text) => ({ response, text }))),
    Effect.mapError((error) => notThere(base, error)),
    Effect.timeoutOrElse({ duration: patience, orElse: () => Effect.fail(silent(base)) }),
  )
  const { headers, status } = response.response
  if (status === 200) return { text: response.text, headers } satisfies Answer
  return yield* refusal({ status, text: response.text, retryAfter: headers["retry-after"] }, arrow)
})

/** §2.6: the query of the next page. Its address may be another one than this machine reaches the service by. */
export const nextOf = ({ headers }: Answer) => {
  const [, link] = /<([^>]*)>;\s*rel="next"/.exec(headers["link"] ?? "") ?? []
  // The address before it says nothing, so any will do.
  const nowhere = "http://localhost"
  return link !== undefined && URL.canParse(link, nowhere) ? Option.some(new URL(link, nowhere).search) : Option.none()
}

const costOf = ({ headers }: Answer) => Number(headers["x-cost-microdollars"] ?? 0)

export interface Asked {
  readonly answer: Answer
  /** Of all pages that were asked for. */
  readonly rows: ReadonlyArray<ResponseRow>
  readonly cost: number
  /** There are more rows than these. */
  readonly isCut: boolean
}

const first = (answer: Answer): Asked => ({
  answer,
  rows: Option.match(parseExactJson(answer.text), { onNone: () => [], onSome: extractRows }),
  cost: costOf(answer),
  isCut: Option.isSome(nextOf(answer)),
})

export const onePage = (question: Question) => Effect.map(ask(question), first)

/** Page after page up to `most` rows; where the limit of requests is used up, it waits as long as the service says. */
export const allPages = Effect.fnUntraced(function* (question: Question, most: number, seen: (rows: number) => void) {
  let asked = first(yield* ask(question))
  const rows = [...asked.rows]
  let cost = asked.cost
  while (rows.length < most) {
    const next = nextOf(asked.answer)
    if (Option.isNone(next)) break
    seen(rows.length)
    const left = Number(asked.answer.headers["x-ratelimit-remaining"] ?? 1)
    if (left < 1) {
      const wait = Math.min(60, Number(asked.answer.headers["x-ratelimit-reset"] ?? 1))
      yield* Console.error(`The limit of requests is used up; going on in ${wait} s.`)
      yield* Effect.sleep(Duration.seconds(wait))
    }
    asked = first(yield* ask({ ...question, search: next.value }))
    rows.push(...asked.rows)
    cost += asked.cost
  }
  return {
    answer: asked.answer,
    rows: rows.slice(0, most),
    cost,
    isCut: rows.length > most || Option.isSome(nextOf(asked.answer)),
  } satisfies Asked
})
