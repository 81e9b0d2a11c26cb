/** A server that responds to requests for changes with scripted event streams and errors over real sockets. */
import { assert } from "@effect/vitest"
import { Effect } from "effect"
import { createServer, type ServerResponse } from "node:http"

/** A request that the stub received. */
export interface FeedStubRequest {
  readonly path: string
  readonly query: URLSearchParams
  readonly headers: Readonly<Record<string, string | ReadonlyArray<string> | undefined>>
  /** Resolves when the response has ended or either side has closed the connection. */
  readonly closed: Promise<void>
}

/** A scripted response of the stub. */
export type FeedStubReply =
  | "lost"
  | { readonly status: number; readonly body: unknown; readonly headers?: Readonly<Record<string, string>> }
  | {
    /** The body of an event stream, or a function that writes the body. */
    readonly events: string | Uint8Array | ((response: ServerResponse) => void)
    /** What happens after the events: the response ends, the connection is lost, or it stays open. */
    readonly ending: "end" | "reset" | "open"
  }

/**
 * Sends the scripted reply: none (`lost`: the connection is closed), a complete response with a status, or a stream of
 * events, which then ends, breaks off, or stays open.
 */
const send = (response: ServerResponse, reply: FeedStubReply) => {
  if (reply === "lost") return response.socket?.destroy()
  if ("status" in reply) {
    const body = typeof reply.body === "string" ? reply.body : JSON.stringify(reply.body)
    response.writeHead(reply.status, { "content-type": "application/json", ...reply.headers }).end(body)
    return
  }
  response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-store" })
  response.flushHeaders()
  const { events, ending } = reply
  if (typeof events === "function") return events(response)
  const finish = () => {
    if (ending === "end") response.end()
    // Half-closes the connection after the events without sending the last chunk of the body.
    else if (ending === "reset") response.socket?.end()
  }
  if (events.length === 0) finish()
  else response.write(events, finish)
}

/**
 * Starts the server, which stops when the scope closes. `respond` returns the reply to a request, whose `index` is
 * counted from 0. Returns the server's URL, the requests that it has received so far, and a function that stops it
 * early.
 */
export const startChangeFeedStub = (respond: (request: FeedStubRequest, index: number) => FeedStubReply) =>
  Effect.acquireRelease(
    Effect.callback<{ readonly url: string; readonly requests: Array<FeedStubRequest>; readonly close: () => void }>(
      (resume) => {
        const requests: Array<FeedStubRequest> = []
        const server = createServer((incoming, response) => {
          const { pathname, searchParams } = new URL(incoming.url ?? "/", "http://localhost")
          const closed = new Promise<void>((resolve) => response.once("close", () => resolve()))
          const request = { path: pathname, query: searchParams, headers: incoming.headers, closed }
          requests.push(request)
          send(response, respond(request, requests.length - 1))
        })
        const close = () => {
          server.close()
          server.closeAllConnections()
        }
        server.listen(0, "127.0.0.1", () => {
          const address = server.address()
          const port = typeof address === "object" && address !== null ? address.port : 0
          resume(Effect.succeed({ url: `http://127.0.0.1:${port}`, requests, close }))
        })
      },
    ),
    ({ close }) => Effect.sync(close),
  )

/**
 * Returns the cursor that follows change `number`. A larger `step` gives a later cursor that still precedes the next
 * change.
 */
export const makeStubCursor = (number: number, step = 0) => `${number}.${step}.${"0123456789abcdef".repeat(2)}`

/** Builds a change in the format that the service sends. The text in its row resembles event stream syntax. */
export const makeStubChange = (number: number) => ({
  cursor: makeStubCursor(number),
  recorded_at: "2026-06-01T08:30:00.123456-05:00",
  dataset: "split_status",
  kind: "added",
  key: { ticker: `T${number}` },
  row: { ticker: `T${number}`, note: "é\u2028: data:\nid: 7\n\nevent: end", price: 0.5 },
  before: null,
  changed: [],
})

/** Formats the event that delivers change `number`. */
export const formatChangeEvent = (number: number) =>
  `id: ${makeStubCursor(number)}\nevent: change\ndata: ${JSON.stringify(makeStubChange(number))}\n\n`

/** Formats a heartbeat, optionally with a cursor. */
export const formatHeartbeat = (cursor?: string) => `: heartbeat\n${cursor === undefined ? "" : `id: ${cursor}\n`}\n`

/** Formats the event that ends a stream. */
export const formatEndEvent = (reason: string) =>
  `event: end\ndata: ${JSON.stringify({ reason, message: "Scripted.", cursor: makeStubCursor(9_999) })}\n\n`

/** The error body for a cursor that is too old. */
export const expiredCursorError = {
  error: {
    code: "cursor_expired",
    message: "Later changes are no longer known.",
    details: { earliest: "2026-06-01T08:30:00.000000-05:00", restart: "/v1/changes?after=now" },
  },
  request_id: "stub",
}

/** Formats the events that report missing changes on a stream. */
export const formatGapEvents = (body: unknown = expiredCursorError) =>
  `event: gap\ndata: ${JSON.stringify(body)}\n\n${formatEndEvent("gap")}`

/** Builds the body of an error response. */
export const makeErrorBody = (code: string, details?: unknown) => ({
  error: { code, message: `It is ${code}.`, ...(details === undefined ? {} : { details }) },
  request_id: "stub",
})

/** Returns the reason with which a promise was rejected. Dies if the promise is fulfilled. */
export const awaitRejection = (start: () => Promise<unknown>): Effect.Effect<unknown> =>
  Effect.promise(() => start().then(() => assert.fail("The promise was fulfilled"), (error: unknown) => error))
