/** Receivers of webhooks: HTTP servers that record requests and answer as told. */
import { Effect } from "effect"
import { createServer, type IncomingHttpHeaders, type ServerResponse } from "node:http"

export interface ReceivedWebhook {
  readonly headers: IncomingHttpHeaders
  readonly path: string
  readonly body: string
}

/** Answers a request with a status, or with anything else. */
type Behaviour = (received: ReceivedWebhook, response: ServerResponse) => number | undefined

/** Leaves a request without an answer. */
export const hang: Behaviour = () => undefined

/** Returns a header that the request has once. */
export const getOneHeader = ({ headers }: ReceivedWebhook, name: string) => {
  const value = headers[name]
  return typeof value === "string" ? value : ""
}

/** Starts a receiver, which ends with the scope. It answers 204 unless `behaviour.answer` is replaced. */
export const startWebhookReceiver = Effect.gen(function* () {
  const received: Array<ReceivedWebhook> = []
  const behaviour: { answer: Behaviour } = { answer: () => 204 }
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
      const status = behaviour.answer(webhook, response)
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
