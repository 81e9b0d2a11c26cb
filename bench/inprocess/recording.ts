/** Stores and loads recorded PostgreSQL replies, and provides streams that record them. */
import { readFileSync, writeFileSync } from "node:fs"
import { Duplex } from "node:stream"
import { forEachMessage, messageTypes, readText } from "./protocol.ts"

/** The recorded replies to one statement, as base64-encoded messages of the PostgreSQL protocol. */
export interface RecordedStatement {
  readonly text: string
  /** The reply to `Describe`. */
  readonly description: string
  /** The rows and the completion message, by case. Cases that are missing here use the first reply. */
  readonly results: Readonly<Record<string, string>>
}

/** Everything that is needed to run the service without a PostgreSQL server. */
export interface Recording {
  /** A hash of the files that the recording depends on. */
  readonly version: string
  /** The API key that the service accepts. */
  readonly key: string
  readonly statements: ReadonlyArray<RecordedStatement>
  /** The response body of the recorded request, by case. */
  readonly bodies: Readonly<Record<string, string>>
}

/** Reads a recording from a file. */
export const readRecording = (file: string): Recording => JSON.parse(readFileSync(file, "utf8"))

/** Writes a recording to a file. */
export const writeRecording = (file: string, recording: Recording) =>
  writeFileSync(file, `${JSON.stringify(recording, null, 1)}\n`)

interface Reply {
  description: Buffer
  readonly results: Map<string, Buffer>
}

const describing = new Set([
  messageTypes.parameterDescription,
  messageTypes.rowDescription,
  messageTypes.noData,
])
const executing = new Set([
  messageTypes.dataRow,
  messageTypes.commandComplete,
  messageTypes.emptyQuery,
])

/**
 * Creates a recorder of PostgreSQL's replies. `record` returns the stream through which the service uses a connection:
 * the recorder parses the messages in both directions, and stores the reply to each statement by its text. A statement
 * may have another reply in each case, so `startCase` is called before the requests of a case. `listStatements` returns
 * all replies, and `failures` the errors that PostgreSQL has sent.
 */
export const makeRecorder = () => {
  const replies = new Map<string, Reply>()
  const failures: Array<string> = []
  let currentCase = "start"

  /** Returns a stream that forwards all bytes to and from the socket, and records complete replies. */
  const record = (socket: Duplex) => {
    /** The texts of the prepared statements, by name. */
    const prepared = new Map<string, string>()
    /** Whether the connection has been established. Before, its messages are not those of statements. */
    let isStarted = false
    /** The text of the statement that is currently executed. */
    let text: string | undefined
    /** The bytes from the server that are not yet a complete message. */
    let received = Buffer.alloc(0)
    /** The messages of the current reply: those that describe the rows, and those that contain them. */
    let [description, result]: [Array<Buffer>, Array<Buffer>] = [[], []]

    /** Handles a message from the service: `Parse` prepares a statement, and `Bind` begins its execution. */
    const onFrontend = (type: number, body: Buffer) => {
      if (type === messageTypes.parse) {
        const name = readText(body, 0)
        prepared.set(name.text, readText(body, name.end).text)
      } else if (type === messageTypes.bind) {
        const portal = readText(body, 0)
        text = prepared.get(readText(body, portal.end).text)
      }
    }

    const store = (text: string) => {
      const reply = replies.get(text) ??
        { description: Buffer.alloc(0), results: new Map<string, Buffer>() }
      if (description.length > 0) {
        reply.description = Buffer.concat(description)
      }
      reply.results.set(currentCase, Buffer.concat(result))
      replies.set(text, reply)
    }

    /** Handles a message from the server. `ReadyForQuery` ends each reply. */
    const onBackend = (type: number, _body: Buffer, message: Buffer) => {
      if (describing.has(type)) description.push(message)
      else if (executing.has(type)) result.push(message)
      else if (type === messageTypes.error && text !== undefined) {
        failures.push(`${message.toString("latin1")}\n${text}`)
      } else if (type === messageTypes.readyForQuery) {
        if (isStarted && text !== undefined && result.length > 0) store(text)
        isStarted = true
        text = undefined
        ;[description, result] = [[], []]
      }
    }

    const stream = new Duplex({
      read: () => void socket.resume(),
      write: (chunk: Buffer, _encoding, done) => {
        if (isStarted) forEachMessage(chunk, onFrontend)
        socket.write(chunk, done)
      },
      final: (done) => void socket.end(done),
      destroy: (error, done) => {
        socket.destroy()
        done(error)
      },
    })
    socket.on("data", (chunk: Buffer) => {
      received = Buffer.concat([received, chunk])
      received = received.subarray(forEachMessage(received, onBackend))
      stream.push(chunk)
    })
    socket.on("error", (error) => stream.destroy(error))
    socket.on("close", () => stream.destroy())
    return stream
  }

  return {
    record,
    failures,
    /** From now on, records replies under the given case. */
    startCase: (name: string) => {
      currentCase = name
    },
    listStatements: (): ReadonlyArray<RecordedStatement> =>
      Array.from(replies, ([text, { description, results }]) => ({
        text,
        description: description.toString("base64"),
        results: Object.fromEntries(
          Array.from(
            results,
            ([name, bytes]) => [name, bytes.toString("base64")],
          ),
        ),
      })),
  }
}
