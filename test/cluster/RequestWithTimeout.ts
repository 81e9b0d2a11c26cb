/** Sends an HTTP request with a timeout. */
import { Data, Effect } from "effect"
import { type Agent, request } from "node:http"

/** A complete response. */
export interface TimedResponse {
  readonly status: number
  readonly headers: Readonly<Record<string, string | ReadonlyArray<string> | undefined>>
  readonly text: string
}

/** The server sent no response or an incomplete one. */
export class NoResponse extends Data.TaggedError("NoResponse")<{ readonly message: string }> {}

/** A request and its timeout. */
export interface RequestWithTimeoutOptions {
  readonly host: string
  readonly port: number
  readonly path: string
  readonly method?: "GET" | "POST" | "PATCH"
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
  readonly agent?: Agent
  /** The source address. By default, the operating system chooses it. */
  readonly localAddress?: string
  /** The idle timeout in milliseconds. */
  readonly timeout?: number
}

/** Sends a request. Fails if no data arrives for the duration of the timeout. */
export const requestWithTimeout = ({ body, headers = {}, timeout = 45_000, ...options }: RequestWithTimeoutOptions) =>
  Effect.callback<TimedResponse, NoResponse>((resume) => {
    const fail = ({ message }: Error) => resume(Effect.fail(new NoResponse({ message })))
    const outgoing = request({ ...options, headers, timeout }, (response) => {
      const chunks: Array<Buffer> = []
      response.on("data", (chunk: Buffer) => chunks.push(chunk))
      response.on("error", fail)
      response.on("end", () => {
        const text = Buffer.concat(chunks).toString("utf8")
        resume(Effect.succeed({ status: response.statusCode ?? 0, headers: response.headers, text }))
      })
    })
    outgoing.on("timeout", () => outgoing.destroy(new Error(`no response within ${timeout} ms`)))
    outgoing.on("error", fail)
    outgoing.end(body)
    return Effect.sync(() => outgoing.destroy())
  })

/** Returns the value of a response header, or "" if it is missing. */
export const getHeaderValue = ({ headers }: TimedResponse, name: string) => String(headers[name] ?? "")
