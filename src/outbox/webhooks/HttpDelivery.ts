/**
 * Makes attempts to deliver webhook messages by HTTP. Connects only to addresses that have been checked (SECURITY.md).
 */
import { Clock, Duration, Effect } from "effect"
import { Resolver } from "node:dns/promises"
import { type IncomingMessage, request as requestHttp, type RequestOptions } from "node:http"
import { request as requestHttps } from "node:https"
import { isIP } from "node:net"
import packageJson from "../../../package.json" with { type: "json" }
import type { AllowedHosts } from "./WebhookSettings.ts"
import { signWebhook } from "./WebhookSignature.ts"
import { checkWebhookUrl, getHost, isAddressPermitted } from "./WebhookUrl.ts"

/** Time limit for one delivery attempt, from the DNS query until the response headers arrive. */
export const deliveryTimeout = Duration.seconds(15)

/**
 * How long to wait for the start of the response body after the headers have arrived. Anything that arrives later is
 * ignored.
 */
const bodyTimeout = Duration.seconds(2)

/**
 * Maximum number of bytes to read of a receiver's response, and maximum number of characters in the excerpt that is
 * stored for operators.
 */
const [maxBodyBytes, maxExcerptLength] = [4096, 200]

/** A webhook message, its receiver's URL, and the secrets to sign it with. */
export interface WebhookRequest {
  readonly message_id: string
  readonly url: string
  readonly body: string
  /** The secrets used for signing: the current one, and the previous one while it is still valid. */
  readonly secrets: ReadonlyArray<string>
}

/** The reasons why an attempt can fail. They are used as a metrics label. */
export const deliveryFailureReasons = ["address", "connection", "timeout", "redirect", "status", "gone"] as const

/** One of the reasons in `deliveryFailureReasons`. */
export type DeliveryFailureReason = typeof deliveryFailureReasons[number]

/** The result of an attempt to deliver a message. */
export type DeliveryResult =
  | { readonly _tag: "Delivered"; readonly status: number }
  | {
    readonly _tag: "Failed"
    readonly why: DeliveryFailureReason
    /** An explanation for operators. Contains at most a short excerpt of the response. */
    readonly reason: string
    /** The response status, if there was a response. */
    readonly status?: number
    /** The delay requested by the receiver with `Retry-After`, in seconds. */
    readonly retryAfterSeconds?: number
  }

const fail = (why: DeliveryFailureReason, reason: string): DeliveryResult => ({ _tag: "Failed", why, reason })

/** Resolves a host name to all of its addresses. Rejects if there are none. */
export type HostResolver = (host: string) => Promise<ReadonlyArray<string>>

/**
 * Returns a function that queries DNS for IPv4 and IPv6 addresses. Unlike `lookup`, it does not occupy a thread in
 * libuv's pool, so a slow DNS server for one receiver cannot block all others. It also ignores the hosts file and
 * search domains.
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

/** The longest delay before the next attempt that a receiver can request, in seconds. */
const maxRetryAfterSeconds = 24 * 3600

/**
 * Parses a `Retry-After` header, which contains either a number of seconds or a date. Returns the delay in seconds, or
 * undefined if there is none. `now` is the Unix time in milliseconds.
 */
const parseRetryAfter = (text: string | undefined, now: number) => {
  if (text === undefined) return undefined
  const seconds = /^\d+$/.test(text) ? Number(text) : (Date.parse(text) - now) / 1000
  return seconds > 0 ? Math.min(seconds, maxRetryAfterSeconds) : undefined
}

const formatExcerpt = (bytes: Buffer) =>
  bytes.toString("utf8").replaceAll(/[\p{Cc}\p{Cf}\p{Cs}\p{Co}\s]+/gu, " ").trim().slice(0, maxExcerptLength)

/**
 * Reads the start of a response body. If the receiver stops sending or the response is destroyed, resolves with what
 * has arrived by then. Never rejects.
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
 * Converts a receiver's response to the result of the attempt. Success depends only on the status, so a body that never
 * ends does not matter. After a failure, the start of the body becomes part of the reason: `excerpt` is a promise of
 * it, and reading stops after `bodyTimeout`, when the response is destroyed and the promise resolves with what has
 * arrived.
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
 * Sends the request to one of the given addresses, which have been checked. Does not query DNS again, because a second
 * query could return unchecked addresses. Aborting the signal closes the connection. Resolves with the response when
 * its headers have arrived, or with the failure of the attempt.
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
      // Use a new connection for each request. A kept-alive connection could still be in use after its address has
      // become forbidden.
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
 * Returns a function that makes one attempt to deliver a message. The function never fails: a failed attempt is a
 * result. It ends within `deliveryTimeout` plus `bodyTimeout`. `allowed` are the receivers that may be internal.
 */
export const makeWebhookDelivery = (allowed: AllowedHosts, resolveHost: HostResolver) => {
  const resolveAddresses = Effect.fnUntraced(function* (host: string) {
    if (isIP(host) !== 0) return [host]
    return yield* Effect.tryPromise({
      try: () => resolveHost(host),
      catch: (error) => error instanceof Error ? error.message : String(error),
    })
  })

  /** Sends the message. Returns the response, whatever its status, or the reason why there is none. */
  const send = ({ body, message_id, secrets, url: text }: WebhookRequest) =>
    Effect.gen(function* () {
      const checked = checkWebhookUrl(text, allowed)
      if ("problem" in checked) return fail("address", `The URL ${checked.problem}.`)
      const { url } = checked
      const host = getHost(url)
      const addresses = yield* resolveAddresses(host)
      // A single internal address is enough to refuse the host, because the receiver controls which addresses the host
      // name resolves to.
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
