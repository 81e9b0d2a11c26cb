/** A minimal HTTP client for requests whose latency is not measured. */
import { Agent, request } from "node:http"

/** A complete response. */
export interface HttpResponse {
  readonly status: number
  /** Pairs of header name and value, with the names spelled as the server sent them. */
  readonly headers: ReadonlyArray<readonly [string, string]>
  readonly body: Buffer
}

const agent = new Agent({ keepAlive: true, maxSockets: 16 })

/** Sends a request to a server on this machine. The method is POST if there is a body, otherwise GET. */
export const sendRequest = (
  port: number,
  path: string,
  headers: Readonly<Record<string, string>> = {},
  body?: string,
) =>
  new Promise<HttpResponse>((resolve, reject) => {
    const method = body === undefined ? "GET" : "POST"
    const outgoing = request({
      agent,
      host: "127.0.0.1",
      port,
      path,
      method,
      headers,
    }, (response) => {
      const chunks: Array<Buffer> = []
      response.on("data", (chunk: Buffer) => chunks.push(chunk))
      response.on("error", reject)
      response.on("end", () =>
        resolve({
          status: response.statusCode ?? 0,
          headers: response.rawHeaders.flatMap((name, at, all) =>
            at % 2 === 0 ? [[name, all[at + 1] ?? ""] as const] : []
          ),
          body: Buffer.concat(chunks),
        }))
    })
    outgoing.on("error", reject)
    outgoing.end(body)
  })

/** Returns the value of a header, or undefined if the response does not have it. */
export const getHeader = ({ headers }: HttpResponse, lowerCaseName: string) =>
  headers.find(([name]) => name.toLowerCase() === lowerCaseName)?.[1]

/** Returns request headers that contain an API key and ask for JSON. */
export const authorizationHeaders = (key: string) => ({
  accept: "application/json",
  authorization: `Bearer ${key}`,
})

/** Calls `one` for all items concurrently. The HTTP agent limits the number of connections. */
export const mapConcurrently = <A, B>(
  items: ReadonlyArray<A>,
  one: (item: A) => Promise<B>,
) => Promise.all(items.map(one))
