/** Sends one message to a receiver. It connects only to addresses that were checked (SECURITY.md). */
import { Clock, Duration, Effect } from "effect"
import { Resolver } from "node:dns/promises"
import { type IncomingMessage, request as requestHttp, type RequestOptions } from "node:http"
import { request as requestHttps } from "node:https"
import { isIP } from "node:net"
import packageJson from "../../../package.json" with { type: "json" }
import type { AllowedHosts } from "./WebhookSettings.ts"
import { signWebhook } from "./WebhookSignature.ts"
import { checkWebhookUrl, getHost, isAddressPermitted } from "./WebhookUrl.ts"

/** How long an attempt may take, from the DNS query to the headers of the response. */
export const deliveryTimeout = Duration.seconds(15)

/** How long to wait for the beginning of the body after the headers have arrived. What comes later is not read. */
const bodyTimeout = Duration.seconds(2)

/** Maximum number of response bytes that are read, and of characters that are kept. */
const [maxBodyBytes, maxExcerptLength] = [4096, 200]

/** A message and its receiver. */
export interface WebhookRequest {
  readonly message_id: string
  readonly url: string
  readonly body: string
  /** The secrets that sign: the current one, and the previous one while it is valid. */
  readonly secrets: ReadonlyArray<string>
}

/** The reasons why an attempt can fail. Metrics use them as a label. */
export const deliveryFailures = ["address", "connection", "timeout", "redirect", "status", "gone"] as const

/** One of `deliveryFailures`. */
export type DeliveryFailure = typeof deliveryFailures[number]

/** The result of an attempt. */
export type DeliveryResult =
  | { readonly _tag: "Delivered"; readonly status: number }
  | {
    readonly _tag: "Failed"
    readonly why: DeliveryFailure
    /** For operators. Contains at most a short excerpt of the response. */
    readonly reason: string
    /** The status of the response, if there was one. */
    readonly status?: number
    /** The delay that the receiver asked for with `Retry-After`, s. */
    readonly retryAfterSeconds?: number
  }

const fail = (why: DeliveryFailure, reason: string): DeliveryResult => ({ _tag: "Failed", why, reason })

/** Resolves a host name to all its addresses. Rejects if there are none. */
export type HostResolver = (host: string) => Promise<ReadonlyArray<string>>

/**
 * Returns a function that queries DNS for both IPv4 and IPv6 addresses. Unlike `lookup`, it needs no thread of libuv's
 * pool, so one receiver's slow DNS server cannot block all others. It also reads neither the hosts file nor search
 * domains.
 */
export const makeDnsResolver = (): HostResolver => {
  const resolver = new Resolver({ timeout: 2_000, tries: 2 })
  return async (host) => {
    const found = await Promise.allSettled([resolver.resolve4(host), resolver.resolve6(host)])
    const addresses = found.flatMap((result) => result.status === "fulfilled" ? result.value : [])
    if (addresses.length === 0) throw new Error(`DNS has no address of ${host}`)
    return addresses
  }
}

/** The longest delay that a receiver can ask for, s. */
const maxRetryAfterSeconds = 24 * 3600

/** Parses the number of seconds, or the date, of a header `Retry-After`. */
const parseRetryAfter = (text: string | undefined, now: number) => {
  if (text === undefined) return undefined
  const seconds = /^\d+$/.test(text) ? Number(text) : (Date.parse(text) - now) / 1000
  return seconds > 0 ? Math.min(seconds, maxRetryAfterSeconds) : undefined
}

const formatExcerpt = (bytes: Buffer) =>
  bytes.toString("utf8").replaceAll(/[\p{Cc}\p{Cf}\p{Cs}\p{Co}\s]+/gu, " ").trim().slice(0, maxExcerptLength)

/**
 * Reads the beginning of a body. If the receiver stops sending or the response is destroyed, resolves with what has
 * arrived.
 */
const readExcerpt = (response: IncomingMessage) =>
  new Promise<string>((resolve) => {
    const chunks: Array<Buffer> = []
    let size = 0
    const end = () => resolve(formatExcerpt(Buffer.concat(chunks).subarray(0, maxBodyBytes)))
    response.on("data", (chunk: Buffer) => {
      chunks.push(chunk)
      size += chunk.length
      if (size >= maxBodyBytes) response.destroy()
    })
    response.on("close", end)
    response.on("error", end)
  })

interface ArrivedResponse {
  readonly response: IncomingMessage
  readonly excerpt: Promise<string>
}

/**
 * Turns a response into a result. Success depends on the status alone, even if the body never ends. In a failure, the
 * beginning of the body is part of the reason.
 */
const interpretResponse = Effect.fnUntraced(function* ({ excerpt, response }: ArrivedResponse) {
  const status = response.statusCode ?? 0
  if (status >= 200 && status < 300) return { _tag: "Delivered", status } satisfies DeliveryResult
  const isRedirect = status >= 300 && status < 400
  const reading = Effect.promise(() => excerpt)
  if (!isRedirect) yield* Effect.timeoutOption(reading, bodyTimeout)
  response.destroy()
  const text = isRedirect ? "redirects are not followed" : yield* reading
  const retryAfterSeconds = parseRetryAfter(response.headers["retry-after"], yield* Clock.currentTimeMillis)
  return {
    _tag: "Failed",
    why: status === 410 ? "gone" : isRedirect ? "redirect" : "status",
    reason: text === "" ? `HTTP ${status}` : `HTTP ${status}: ${text}`,
    status,
    ...(retryAfterSeconds !== undefined && { retryAfterSeconds }),
  } satisfies DeliveryResult
}, (effect, { response }) => Effect.ensuring(effect, Effect.sync(() => response.destroy())))

/**
 * Sends the request to one of the addresses, without querying DNS again: a second query could return addresses that
 * were not checked. The signal ends the connection. Resolves with the response as soon as its headers have arrived, or
 * with the failure.
 */
const post = (
  url: URL,
  addresses: ReadonlyArray<string>,
  headers: Readonly<Record<string, string>>,
  body: string,
  signal: AbortSignal,
) =>
  new Promise<ArrivedResponse | DeliveryResult>((resolve) => {
    const checked = addresses.map((address) => ({ address, family: isIP(address) }))
    const options: RequestOptions = {
      method: "POST",
      headers,
      // Uses a new connection, because a connection that is kept alive could outlive the check of its address.
      agent: false,
      signal,
      lookup: (_host, { all }, done) => {
        const [first] = checked
        if (all === true) done(null, checked)
        else if (first !== undefined) done(null, first.address, first.family)
        else done(new Error("There is no address."), "")
      },
    }
    const request = url.protocol === "https:" ? requestHttps(url, options) : requestHttp(url, options)
    request.on("response", (response) => resolve({ response, excerpt: readExcerpt(response) }))
    request.on("error", (error: NodeJS.ErrnoException) => {
      resolve(fail("connection", error.code === undefined ? error.message : `${error.code}: ${error.message}`))
    })
    request.end(body)
  })

/**
 * Returns a function that tries once to deliver a message. It never fails, and ends within `deliveryTimeout` plus
 * `bodyTimeout`.
 */
export const makeWebhookDelivery = (allowed: AllowedHosts, resolveHost: HostResolver) => {
  const resolveAddresses = Effect.fnUntraced(function* (host: string) {
    if (isIP(host) !== 0) return [host]
    return yield* Effect.tryPromise({
      try: () => resolveHost(host),
      catch: (error) => error instanceof Error ? error.message : String(error),
    })
  })

  /** Returns the response, or the failure. */
  const send = ({ body, message_id, secrets, url: text }: WebhookRequest) =>
    Effect.gen(function* () {
      const checked = checkWebhookUrl(text, allowed)
      if ("problem" in checked) return fail("address", `The URL ${checked.problem}.`)
      const { url } = checked
      const host = getHost(url)
      const addresses = yield* resolveAddresses(host)
      // One internal address is enough to refuse, because the receiver decides which addresses its name has.
      const internal = addresses.find((address) => !isAddressPermitted(allowed, host, address))
      if (internal !== undefined) {
        return fail("address", `${host} has the internal address ${internal}, which is not in WEBHOOKS_ALLOWED_HOSTS.`)
      }
      const timestamp = Math.floor((yield* Clock.currentTimeMillis) / 1000)
      const headers = {
        "content-type": "application/json",
        "content-length": String(Buffer.byteLength(body)),
        "user-agent": `Tickerline-Webhooks/${packageJson.version}`,
        "webhook-id": message_id,
        "webhook-timestamp": String(timestamp),
        "webhook-signature": signWebhook({ id: message_id, timestamp, body }, secrets),
      }
      return yield* Effect.promise((signal) => post(url, addresses, headers, body, signal))
    }).pipe(
      Effect.catch((reason) => Effect.succeed(fail("connection", reason))),
      Effect.timeoutOrElse({
        duration: deliveryTimeout,
        orElse: () =>
          Effect.succeed(fail("timeout", `The receiver sent no response within ${Duration.format(deliveryTimeout)}.`)),
      }),
    )

  return (message: WebhookRequest): Effect.Effect<DeliveryResult> =>
    Effect.flatMap(
      send(message),
      (sent): Effect.Effect<DeliveryResult> => "_tag" in sent ? Effect.succeed(sent) : interpretResponse(sent),
    )
}
