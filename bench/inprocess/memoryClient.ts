/**
 * A client that is connected to an HTTP server in the same process, without a socket. It sends one request at a time.
 */
import type { Server } from "node:http"
import { Duplex } from "node:stream"

/** A complete response. `head` contains the status line and the headers. */
export interface Response {
  readonly status: number
  readonly head: string
  readonly body: Buffer
}

/** The server side of a connection. */
class MemorySocket extends Duplex {
  readonly remoteAddress = "127.0.0.1"
  readonly #onChunk: (chunk: Buffer) => void
  bytesWritten = 0

  constructor(onChunk: (chunk: Buffer) => void) {
    super()
    this.#onChunk = onChunk
  }
  override _read() {}
  override _write(chunk: Buffer, _encoding: BufferEncoding, done: () => void) {
    this.bytesWritten += chunk.length
    this.#onChunk(chunk)
    done()
  }
  override _writev(
    chunks: Array<{ readonly chunk: Buffer }>,
    done: () => void,
  ) {
    for (const { chunk } of chunks) {
      this.bytesWritten += chunk.length
      this.#onChunk(chunk)
    }
    done()
  }
}

const headEnd = Buffer.from("\r\n\r\n")
const lengthHeader = /^content-length: (\d+)/im

/** A connection to an HTTP server in this process. */
export class MemoryClient {
  readonly #socket: MemorySocket
  #chunks: Array<Buffer> = []
  #missing = 0
  #status = 0
  #headBytes = 0
  #done: (
    status: number,
    chunks: ReadonlyArray<Buffer>,
    headBytes: number,
  ) => void = () => {}

  constructor(server: Server) {
    this.#socket = new MemorySocket((chunk) => this.#receive(chunk))
    server.emit("connection", this.#socket)
  }

  #receive(chunk: Buffer) {
    // Node ends some responses with an empty write.
    if (chunk.length === 0) return
    if (this.#chunks.length === 0) {
      const end = chunk.indexOf(headEnd)
      if (end < 0) throw new Error("The head of a response was sent in parts")
      this.#status = Number(chunk.toString("latin1", 9, 12))
      this.#headBytes = end + headEnd.length
      const length = lengthHeader.exec(chunk.toString("latin1", 0, end))?.[1]
      if (length === undefined && this.#status !== 304) {
        throw new Error("A response has no Content-Length")
      }
      this.#missing = this.#headBytes +
        (this.#status === 304 ? 0 : Number(length))
    }
    this.#chunks.push(chunk)
    this.#missing -= chunk.length
    if (this.#missing > 0) return
    const chunks = this.#chunks
    this.#chunks = []
    // The response is delivered in a later event loop iteration, as with a real socket.
    setImmediate(() => this.#done(this.#status, chunks, this.#headBytes))
  }

  /** Sends a request. Calls `done` with the status and the bytes of the response. */
  send(
    request: Buffer,
    done: (
      status: number,
      chunks: ReadonlyArray<Buffer>,
      headBytes: number,
    ) => void,
  ) {
    this.#done = done
    this.#socket.push(request)
  }

  /** Sends a request and resolves with the response. */
  request(request: Buffer) {
    return new Promise<Response>((resolve) =>
      this.send(request, (status, chunks, headBytes) => {
        const bytes = Buffer.concat(chunks)
        resolve({
          status,
          head: bytes.toString("latin1", 0, headBytes),
          body: bytes.subarray(headBytes),
        })
      })
    )
  }

  /** Closes the connection. */
  close() {
    this.#socket.destroy()
  }
}

/** Opens several connections to a server. */
export const connectClients = (server: Server, count: number) =>
  Array.from({ length: count }, () => new MemoryClient(server))

/**
 * Sends all requests over the clients' connections. Each connection sends the next request of the list as soon as it
 * has received a response. When all responses have arrived, resolves with the bodies of those whose status differs from
 * `status`.
 */
export const sendAll = (clients: ReadonlyArray<MemoryClient>, requests: ReadonlyArray<Buffer>, status: number) =>
  new Promise<ReadonlyArray<string>>((resolve) => {
    const unexpected: Array<string> = []
    let [sent, received] = [0, 0]
    const sendNext = (client: MemoryClient) => {
      const request = requests[sent]
      if (request === undefined) return
      sent += 1
      client.send(request, (found, chunks) => {
        received += 1
        if (found !== status) unexpected.push(Buffer.concat(chunks).toString())
        if (received === requests.length) resolve(unexpected)
        else sendNext(client)
      })
    }
    for (const client of clients) sendNext(client)
  })
