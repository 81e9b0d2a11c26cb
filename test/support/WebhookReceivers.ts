/**
 * Webhook receivers: HTTP servers that record requests and send the responses that a test chooses.
 *
 * ```ts
 * const receiver = yield* startWebhookReceiver
 * receiver.behaviour.respond = () => 500
 * // … create a webhook endpoint with `receiver.url`, and cause an event …
 * yield* retryUntil(Effect.sync(() => receiver.received), (received) => received.length === 1)
 * ```
 */
import { Effect } from "effect"
import { createServer, type IncomingHttpHeaders, type ServerResponse } from "node:http"

/** A request that the receiver got. */
export interface ReceivedWebhook {
  readonly headers: IncomingHttpHeaders
  readonly path: string
  readonly body: string
}

/** Returns the status with which to respond, or undefined to write the response itself. */
type Behaviour = (received: ReceivedWebhook, response: ServerResponse) => number | undefined

/** Never responds. */
export const neverRespond: Behaviour = () => undefined

/** Returns the value of a header that must occur exactly once. */
export const getOneHeader = ({ headers }: ReceivedWebhook, name: string) => {
  const value = headers[name]
  return typeof value === "string" ? value : ""
}

/**
 * Starts a receiver of webhooks, which stops when the scope closes. It adds each webhook to `received`, and responds
 * with 204. A test may replace `behaviour.respond`, which returns the status of the response, or undefined if it sends
 * the response itself, or none.
 */
export const startWebhookReceiver = Effect.gen(function* () {
  const received: Array<ReceivedWebhook> = []
  const behaviour: { respond: Behaviour } = { respond: () => 204 }
  const server = createServer((request, response) => {
    const chunks: Array<Buffer> = []
    request.on("data", (chunk: Buffer) => chunks.push(chunk))
    request.on("end", () => {
      const webhook = {
        headers: request.headers,
        path: request.url ?? "",
        body: Buffer.concat(chunks).toString("utf8"),
      }
      received.push(webhook)
      const status = behaviour.respond(webhook, response)
      if (status !== undefined) response.writeHead(status).end()
    })
  })
  yield* Effect.acquireRelease(
    Effect.promise(() => new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))),
    () =>
      Effect.promise(() => {
        server.closeAllConnections()
        return new Promise((resolve) => server.close(resolve))
      }),
  )
  const address = server.address()
  const port = typeof address === "object" && address !== null ? address.port : 0
  return { received, behaviour, port, url: `http://127.0.0.1:${port}/hook` }
})
