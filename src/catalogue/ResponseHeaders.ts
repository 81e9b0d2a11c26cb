/** Which statuses an operation can answer, and which headers each of them carries (D14, D17, D18, D27). */
import { Option } from "effect"
import type { Deprecation } from "../rules/Lifecycle.ts"
import { type HeaderName, responseHeaders } from "../rules/ResponseHeaders.ts"

/** What the declaration of an endpoint says about its responses. */
export interface Facts {
  /** It needs a key. */
  readonly keyed: boolean
  /** Its responses carry an `ETag`. */
  readonly revalidated: boolean
  /** It is a list: it has pages and formats. */
  readonly list: boolean
  /** Its `ticker` is a list, of which invalid symbols are dropped. */
  readonly dropsTickers: boolean
  /** It takes the parameters of other endpoints (D28). */
  readonly takesAny: boolean
  readonly life: Option.Option<Deprecation>
}

/** `always`: every response of that status has the header. */
type Presence = "always" | "sometimes"

type Carried = { readonly [Name in HeaderName]?: Presence }

const base: Carried = {
  "X-API-Version": "always",
  "X-Request-Id": "always",
  "X-Content-Type-Options": "always",
  "Vary": "sometimes",
}

/** Statuses of a request that the service could not read, so that it names no endpoint. */
const unread = new Set([408, 413, 431])

/** Statuses from before the key is checked. */
const early = new Set([400, 401, 405, 410, ...unread])

/** Statuses from before the key is checked, or after. */
const either = new Set([429, 500, 503])

const ofLife = (status: number, { life }: Facts): Carried => {
  if (unread.has(status)) return {}
  // What is removed had a sunset.
  if (status === 410) return { Deprecation: "always", Sunset: "always", Link: "always" }
  return Option.match(life, {
    onNone: () => ({}),
    onSome: ({ sunset }): Carried => ({
      Deprecation: "always",
      ...(sunset === undefined ? {} : { Sunset: "always" }),
      Link: "always",
    }),
  })
}

const ofStatus: Readonly<Record<number, Carried>> = {
  401: { "WWW-Authenticate": "always" },
  405: { Allow: "always" },
  429: { "Retry-After": "always" },
  503: { "Retry-After": "always" },
}

const ofAccount = (status: number, { keyed, list }: Facts): Carried => {
  if (!keyed || early.has(status)) return {}
  const presence = either.has(status) ? "sometimes" : "always"
  return {
    "X-RateLimit-Limit": presence,
    "X-RateLimit-Remaining": presence,
    "X-RateLimit-Reset": presence,
    // The cost of a whole list is known at its end.
    "X-Cost-Microdollars": list && status === 200 ? "sometimes" : presence,
  }
}

const ofContent = (status: number, { dropsTickers, list, revalidated, takesAny }: Facts): Carried => {
  const isDecoded = dropsTickers ? !early.has(status) && status !== 403 && status !== 429 : takesAny && status === 200
  const dropped: Carried = isDecoded ? { "X-Dropped-Tickers": "sometimes" } : {}
  if (status === 304) {
    return { ETag: "always", "Cache-Control": "always", ...dropped, ...(list ? { Link: "sometimes" } : {}) }
  }
  if (status !== 200) return dropped
  return {
    ...dropped,
    // `limit=all` has no ETag.
    ...(revalidated ? { ETag: list ? "sometimes" : "always", "Cache-Control": "always" } : {}),
    ...(list
      ? {
        "Cache-Control": revalidated ? "always" : "sometimes",
        Link: "sometimes",
        "X-Row-Count": "sometimes",
        "Content-Disposition": "sometimes",
        "Unencoded-Digest": "sometimes",
        Trailer: "sometimes",
      }
      : {}),
  }
}

/** The headers of a response; what is always there by one reason is always there. */
const carried = (status: number, facts: Facts): Carried => ({
  ...base,
  ...ofStatus[status],
  ...ofAccount(status, facts),
  ...ofContent(status, facts),
  ...ofLife(status, facts),
})

type Json = Record<string, unknown>

const isHeader = (name: string): name is HeaderName => name in responseHeaders

/** The headers that the status carries; one that is sometimes missing here alone, or never here, is written out. */
export const headersOf = (status: number, facts: Facts): Json =>
  Object.fromEntries(
    Object.entries(carried(status, facts)).flatMap(([name, presence]) => {
      if (!isHeader(name)) return []
      const declared = responseHeaders[name]
      const required = presence === "always"
      return [[
        name,
        declared.required === required ? { $ref: `#/components/headers/${name}` } : { ...declared, required },
      ]]
    }),
  )
