/**
 * A client for server-sent events. It parses only events with a single data line, which is all that the service sends.
 *
 * ```ts
 * const port = yield* startServiceInstance()
 * const stream = yield* openEventStream(port, "after=now&dataset=news", { key })
 * yield* insertRows("news", { id: "1", ticker: "ABC", title: "…" })
 * yield* waitForCondition("the change", () => stream.changes.length === 1)
 * ```
 */
import { Data, Effect, Schedule } from "effect"
import { type ClientRequest, type IncomingHttpHeaders, type IncomingMessage, request } from "node:http"

/** A received event. */
export interface ReceivedEvent {
  readonly event: string
  readonly id: string
  readonly data: string
}

class StreamFailure extends Data.TaggedError("StreamFailure")<{ readonly message: string }> {}

/** One connection and the events received on it. */
export class EventStream {
  status = 0
  headers: IncomingHttpHeaders = {}
  /** The body as received. */
  text = ""
  readonly events: Array<ReceivedEvent> = []
  /** The last event ID, which a client sends when it reconnects. */
  lastId = ""
  comments = 0
  /** The total size of change events, which determines the cost. */
  changeBytes = 0
  isClosed = false
  private unparsed = ""

  private readonly outgoing: ClientRequest
  private response: IncomingMessage | undefined

  constructor(port: number, path: string, headers: Readonly<Record<string, string>>, isReading: boolean) {
    this.outgoing = request({ port, host: "127.0.0.1", path, headers, agent: false }, (response) => {
      this.response = response
      this.status = response.statusCode ?? 0
      this.headers = response.headers
      response.setEncoding("utf8")
      response.on("error", () => {})
      response.on("close", () => this.isClosed = true)
      if (isReading) this.read()
    })
    this.outgoing.on("error", () => this.isClosed = true)
    this.outgoing.on("close", () => this.isClosed = true)
    this.outgoing.end()
  }

  /** Starts or resumes reading. */
  read() {
    if (this.response?.listenerCount("data") === 0) this.response.on("data", (text: string) => this.receive(text))
    this.response?.resume()
  }

  pause() {
    this.response?.pause()
  }

  close() {
    this.outgoing.destroy()
  }

  get end(): ReceivedEvent | undefined {
    return this.events.find(({ event }) => event === "end")
  }

  get changes(): ReadonlyArray<ReceivedEvent> {
    return this.events.filter(({ event }) => event === "change")
  }

  private receive(text: string) {
    this.text += text
    const blocks = (this.unparsed + text).split("\n\n")
    this.unparsed = blocks.pop() ?? ""
    for (const block of blocks) this.parse(block)
  }

  private parse(block: string) {
    let [event, data] = ["message", ""]
    for (const line of block.split("\n")) {
      const [, field = "", value = ""] = /^([^:]*): ?(.*)$/.exec(line) ?? []
      if (field === "") this.comments += 1
      if (field === "id") this.lastId = value
      if (field === "event") event = value
      if (field === "data") data = value
    }
    if (event === "change") this.changeBytes += Buffer.byteLength(`${block}\n\n`)
    if (data !== "") this.events.push({ event, id: this.lastId, data })
  }
}

/** Waits until the condition is true. Fails after 4,000 checks, which take at least 20 seconds. */
export const waitForCondition = (what: string, condition: () => boolean) =>
  Effect.suspend(() => condition() ? Effect.void : Effect.fail(new StreamFailure({ message: `${what}: not in time` })))
    .pipe(
      Effect.retry({ schedule: Schedule.spaced("5 millis"), times: 4_000 }),
    )

/** Options for opening a stream. */
export interface StreamOptions {
  readonly key: string
  readonly headers?: Readonly<Record<string, string>>
  /** Whether the client reads immediately. If false, it reads nothing until `read` is called. */
  readonly isReading?: boolean
}

/** Opens a stream and waits for the response headers. The connection closes when the scope closes. */
export const openEventStream = Effect.fnUntraced(
  function* (port: number, query: string, { headers = {}, isReading = true, key }: StreamOptions) {
    const all = { Authorization: `Bearer ${key}`, "Accept-Encoding": "gzip", ...headers }
    const stream = yield* Effect.acquireRelease(
      Effect.sync(() => new EventStream(port, `/v1/changes/stream?${query}`, all, isReading)),
      (stream) => Effect.sync(() => stream.close()),
    )
    yield* waitForCondition("headers", () => stream.status !== 0 || stream.isClosed)
    return stream
  },
)
