/** A PostgreSQL server in memory that answers each statement with the recorded bytes. */
import { Duplex } from "node:stream"
import { forEachMessage, makeMessage, messageTypes, readParameter, readText } from "./protocol.ts"
import type { Recording } from "./recording.ts"

/** The symbols of a recorded chain begin with these letters, which replies replace with those of the parameter. */
export const recordedSymbolPrefix = "QAAAA"

/** Most bytes of a read from a socket, in Node. */
const maxChunkBytes = 65_536

interface Result {
  readonly bytes: Buffer
  /** Positions of `recordedSymbolPrefix`. */
  readonly symbolPositions: ReadonlyArray<number>
}

interface Statement {
  readonly text: string
  readonly description: Buffer
  readonly results: ReadonlyMap<string, Result>
  readonly isUsageInsert: boolean
  /** The reply in the current case. */
  result: Result
  executions: number
}

const findAll = (bytes: Buffer, text: string) => {
  const found: Array<number> = []
  for (
    let at = bytes.indexOf(text);
    at >= 0;
    at = bytes.indexOf(text, at + 1)
  ) found.push(at)
  return found
}

const toResult = (text: string): Result => {
  const bytes = Buffer.from(text, "base64")
  return { bytes, symbolPositions: findAll(bytes, recordedSymbolPrefix) }
}

const parameterStatus = (name: string, value: string) => makeMessage("S", Buffer.from(`${name}\0${value}\0`))

const parsed = makeMessage("1")
const bound = makeMessage("2")
const closed = makeMessage("3")
const ready = makeMessage("Z", Buffer.from("I"))
const started = Buffer.concat([
  makeMessage("R", Buffer.alloc(4)),
  parameterStatus("server_version", "18.0"),
  parameterStatus("client_encoding", "UTF8"),
  parameterStatus("TimeZone", "UTC"),
  parameterStatus("integer_datetimes", "on"),
  makeMessage("K", Buffer.alloc(8, 1)),
  ready,
])

/** Returns the letters that a parameter contains instead of the recorded prefix: the first five capitals in a row. */
const findSymbolPrefix = (bind: Buffer) => {
  const found = /[A-Z]{6}/.exec(bind.toString("latin1"))
  if (found === null) {
    throw new Error("The statement has no symbol of six letters")
  }
  return found[0].slice(0, recordedSymbolPrefix.length)
}

const fillSymbols = ({ bytes, symbolPositions }: Result, bind: Buffer) => {
  if (symbolPositions.length === 0) return bytes
  const [prefix, filled] = [findSymbolPrefix(bind), Buffer.from(bytes)]
  for (const position of symbolPositions) {
    filled.write(prefix, position, "latin1")
  }
  return filled
}

export class MemoryPostgres {
  readonly #statements: ReadonlyMap<string, Statement>
  /** Statements that the recording lacks. */
  readonly unknown = new Set<string>()
  /** Rows of usage that were written. */
  usageRows = 0

  constructor({ statements }: Recording) {
    this.#statements = new Map(
      statements.map(({ description, results, text }) => {
        const all = new Map(
          Object.entries(results).map((
            [name, bytes],
          ) => [name, toResult(bytes)]),
        )
        const [result = toResult("")] = all.values()
        const isUsageInsert = text.includes("insert into usage (")
        return [text, {
          text,
          description: Buffer.from(description, "base64"),
          results: all,
          isUsageInsert,
          result,
          executions: 0,
        }]
      }),
    )
  }

  /** Answers with the replies of this case from now on. */
  startCase(name: string) {
    for (const statement of this.#statements.values()) {
      const [first = statement.result] = statement.results.values()
      statement.result = statement.results.get(name) ?? first
    }
  }

  /** Returns how often the statements that contain a text were executed. */
  countExecutions(part: string) {
    let count = 0
    for (const { executions, text } of this.#statements.values()) {
      if (text.includes(part)) count += executions
    }
    return count
  }

  /** Returns the text of the statement that contains a part and has a reply of its own in the case. */
  findStatement(part: string, name: string) {
    for (const { results, text } of this.#statements.values()) {
      if (text.includes(part) && results.has(name)) return text
    }
    throw new Error(`No statement with ${part} is recorded for ${name}`)
  }

  #find(text: string) {
    const found = this.#statements.get(text)
    if (found === undefined) this.unknown.add(text)
    return found
  }

  /** Opens a connection. Replies arrive in a later turn of the event loop, as from a socket. */
  open() {
    const prepared = new Map<string, Statement | undefined>()
    let isStarted = false
    let current: Statement | undefined
    let bind: Buffer = Buffer.alloc(0)
    let reply: Array<Buffer> = []

    const handle = (type: number, body: Buffer) => {
      switch (type) {
        case messageTypes.parse: {
          const name = readText(body, 0)
          prepared.set(name.text, this.#find(readText(body, name.end).text))
          return reply.push(parsed)
        }
        case messageTypes.bind:
          current = prepared.get(readText(body, readText(body, 0).end).text)
          bind = body
          return reply.push(bound)
        case messageTypes.describe:
          return reply.push(current?.description ?? makeMessage("n"))
        case messageTypes.execute:
          if (current === undefined) {
            return reply.push(
              makeMessage(
                "E",
                Buffer.from("SERROR\0CXX000\0MNot recorded\0\0"),
              ),
            )
          }
          current.executions += 1
          if (current.isUsageInsert) {
            this.usageRows += readParameter(bind, 1).readInt32BE(12)
          }
          return reply.push(fillSymbols(current.result, bind))
        case messageTypes.sync:
          return reply.push(ready)
        case messageTypes.close:
          return reply.push(closed)
        case messageTypes.terminate:
          return undefined
        default:
          throw new Error(
            `The server in memory does not know the message ${String.fromCharCode(type)}`,
          )
      }
    }

    const send = (bytes: Buffer) => {
      setImmediate(() => {
        for (let at = 0; at < bytes.length; at += maxChunkBytes) {
          stream.push(bytes.subarray(at, at + maxChunkBytes))
        }
      })
    }

    const stream = new Duplex({
      read: () => {},
      write: (chunk: Buffer, _encoding, done) => {
        if (isStarted) {
          reply = []
          if (forEachMessage(chunk, handle) !== chunk.length) {
            throw new Error("A message was sent in parts")
          }
          if (reply.length > 0) {
            send(reply.length === 1 ? reply[0] ?? ready : Buffer.concat(reply))
          }
        } else {
          isStarted = true
          send(started)
        }
        done()
      },
      final: (done) => {
        stream.push(null)
        done()
      },
    })
    return stream
  }
}
