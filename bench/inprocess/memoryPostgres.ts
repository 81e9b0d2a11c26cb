/** A simulated in-memory PostgreSQL server that replies to each statement with recorded bytes. */
import { Duplex } from "node:stream"
import { forEachMessage, makeMessage, messageTypes, readParameter, readText } from "./protocol.ts"
import type { Recording } from "./recording.ts"

/**
 * The prefix of all symbols in the recorded chain. In a reply, it is replaced with the prefix of the requested symbol.
 */
export const recordedSymbolPrefix = "QAAAA"

/** The maximum number of bytes that Node reads from a socket at a time. */
const maxChunkBytes = 65_536

interface Result {
  /** The reply to the messages `Bind`, `Execute`, and `Sync`. */
  readonly reply: Buffer
  /** The offsets at which `recordedSymbolPrefix` occurs in the reply. */
  readonly symbolPositions: ReadonlyArray<number>
}

interface Statement {
  readonly text: string
  readonly description: Buffer
  readonly results: ReadonlyMap<string, Result>
  /**
   * The index of the parameter that contains the number of requests in each row. Undefined if the statement does not
   * write usage.
   */
  readonly requestsParameter: number | undefined
  readonly isTokenRequest: boolean
  /** The reply to send in the current case. */
  result: Result
  executions: number
}

const parsed = makeMessage("1")
const bound = makeMessage("2")
const closed = makeMessage("3")
const ready = makeMessage("Z", Buffer.from("I"))
const noData = makeMessage("n")
const notRecorded = Buffer.concat([makeMessage("E", Buffer.from("SERROR\0CXX000\0MNot recorded\0\0")), ready])

/** Returns the reply without its first message, `BindComplete`. */
const skipBound = (reply: Buffer) => reply.subarray(bound.length)

const findAll = (bytes: Buffer, text: string) => {
  const found: Array<number> = []
  for (
    let at = bytes.indexOf(text);
    at >= 0;
    at = bytes.indexOf(text, at + 1)
  ) found.push(at)
  return found
}

const toResult = (text: string, isLineage = false): Result => {
  const reply = Buffer.concat([bound, Buffer.from(text, "base64"), ready])
  return { reply, symbolPositions: isLineage ? findAll(reply, recordedSymbolPrefix) : [] }
}

/** Returns the first element of a `float8` array in binary format, or undefined if the array is empty. */
const readFirstFloat = (array: Buffer) => array.readInt32BE(0) === 0 ? undefined : array.readDoubleBE(24)

/**
 * Returns the sum of a `smallint` array in binary format: a 20-byte header, followed by a length and a value for each
 * element.
 */
const sumSmallIntegers = (array: Buffer) => {
  let sum = 0
  for (let at = 20; at < array.length; at += 6) sum += array.readInt16BE(at + 4)
  return sum
}

const findRequestsParameter = (text: string) => {
  const [, number] = /unnest\(\$(\d+)\) as requests,/.exec(text) ?? []
  return number === undefined ? undefined : Number(number) - 1
}

const complete = (tag: string) => makeMessage("C", Buffer.from(`${tag}\0`))

/**
 * Grants all rate-limit tokens that an account requests. A recorded grant cannot be replayed, because it would be too
 * small.
 */
const grantTokens = (bind: Buffer) => {
  const [account, , needed = 0, prefetch = 0] = [0, 1, 2, 3].map((index) => readFirstFloat(readParameter(bind, index)))
  if (account === undefined) return complete("INSERT 0 0")
  const row = Buffer.alloc(2 + 3 * 12)
  row.writeInt16BE(3)
  for (const [index, value] of [account, needed + prefetch, 0].entries()) {
    row.writeInt32BE(8, 2 + 12 * index)
    row.writeDoubleBE(value, 6 + 12 * index)
  }
  return Buffer.concat([makeMessage("D", row), complete("INSERT 0 1")])
}

const parameterStatus = (name: string, value: string) => makeMessage("S", Buffer.from(`${name}\0${value}\0`))

const started = Buffer.concat([
  makeMessage("R", Buffer.alloc(4)),
  parameterStatus("server_version", "18.0"),
  parameterStatus("client_encoding", "UTF8"),
  parameterStatus("TimeZone", "UTC"),
  parameterStatus("integer_datetimes", "on"),
  makeMessage("K", Buffer.alloc(8, 1)),
  ready,
])

/** Returns the prefix of the requested six-letter symbol. It replaces the recorded prefix in the reply. */
const findSymbolPrefix = (bind: Buffer) => {
  const found = /[A-Z]{6}/.exec(bind.toString("latin1"))
  if (found === null) throw new Error("The statement has no symbol of six letters")
  return found[0].slice(0, recordedSymbolPrefix.length)
}

/** Returns the reply to the usual message sequence `Bind`, `Execute`, `Sync`. */
const makeReply = ({ isTokenRequest, result }: Statement, bind: Buffer) => {
  if (isTokenRequest) return Buffer.concat([bound, grantTokens(bind), ready])
  if (result.symbolPositions.length === 0) return result.reply
  const [prefix, filled] = [findSymbolPrefix(bind), Buffer.from(result.reply)]
  for (const position of result.symbolPositions) filled.write(prefix, position, "latin1")
  return filled
}

/** The simulated server. It counts the statements that it executes. */
export class MemoryPostgres {
  readonly #statements: ReadonlyMap<string, Statement>
  /** Statements for which the recording contains no reply. */
  readonly unknown = new Set<string>()
  /** The number of requests whose usage has been written so far. */
  usageRows = 0

  constructor({ statements }: Recording) {
    this.#statements = new Map(statements.map(({ description, results, text }) => {
      const isLineage = text.includes("with recursive symbols")
      const recorded = Object.entries(results)
      // For this statement, only the last reply contains all kinds of requests.
      const usable = text.includes("insert into usage_request_kinds") ? recorded.slice(-1) : recorded
      const all = new Map(usable.map(([name, bytes]) => [name, toResult(bytes, isLineage)]))
      const [result = toResult("")] = all.values()
      return [text, {
        text,
        description: Buffer.from(description, "base64"),
        results: all,
        requestsParameter: findRequestsParameter(text),
        isTokenRequest: text.includes("insert into rate_limit_buckets"),
        result,
        executions: 0,
      }]
    }))
  }

  /** From now on, sends the replies that were recorded for the given case. */
  startCase(name: string) {
    for (const statement of this.#statements.values()) {
      const [first = statement.result] = statement.results.values()
      statement.result = statement.results.get(name) ?? first
    }
  }

  /** Returns how many times statements that contain `part` were executed. */
  countExecutions(part: string) {
    let count = 0
    for (const { executions, text } of this.#statements.values()) if (text.includes(part)) count += executions
    return count
  }

  /** Returns the text of the statement that contains `part` and has a reply recorded for the given case. */
  findStatement(part: string, name: string) {
    for (const { results, text } of this.#statements.values()) if (text.includes(part) && results.has(name)) return text
    throw new Error(`No statement with ${part} is recorded for ${name}`)
  }

  #find(text: string) {
    const found = this.#statements.get(text)
    if (found === undefined) this.unknown.add(text)
    return found
  }

  #execute(statement: Statement | undefined, bind: Buffer) {
    if (statement === undefined) return notRecorded
    statement.executions += 1
    if (statement.requestsParameter !== undefined) {
      this.usageRows += sumSmallIntegers(readParameter(bind, statement.requestsParameter))
    }
    return makeReply(statement, bind)
  }

  /** Opens a connection. Replies are delivered in a later event loop iteration, as with a real socket. */
  open() {
    const prepared = new Map<string, Statement | undefined>()
    let isStarted = false
    let current: Statement | undefined
    let bind: Buffer = Buffer.alloc(0)
    /** The replies to the messages that precede `Execute`, such as `Parse` and `Describe`. */
    let before: Array<Buffer> = []
    let reply: Buffer = ready
    let replies: Array<Buffer> = []

    const handle = (type: number, body: Buffer) => {
      switch (type) {
        case messageTypes.parse: {
          const name = readText(body, 0)
          prepared.set(name.text, this.#find(readText(body, name.end).text))
          return before.push(parsed)
        }
        case messageTypes.bind:
          current = prepared.get(readText(body, readText(body, 0).end).text)
          bind = body
          return undefined
        case messageTypes.describe:
          return before.push(bound, current?.description ?? noData)
        case messageTypes.execute:
          reply = this.#execute(current, bind)
          return reply
        case messageTypes.close:
          return before.push(closed)
        case messageTypes.sync:
          // If `Describe` was sent, `BindComplete` has already been added before the description.
          replies.push(...before, before.includes(bound) ? skipBound(reply) : reply)
          ;[before, reply] = [[], ready]
          return undefined
        case messageTypes.terminate:
          return undefined
        default:
          throw new Error(`The server in memory does not know the message ${String.fromCharCode(type)}`)
      }
    }

    /** Returns the replies to all statements in one chunk. Each statement ends with `Sync`. */
    const replyTo = (chunk: Buffer) => {
      replies = []
      if (forEachMessage(chunk, handle) !== chunk.length) throw new Error("A message was sent in parts")
      return Buffer.concat(replies)
    }

    const send = (bytes: Buffer) => {
      setImmediate(() => {
        for (let at = 0; at < bytes.length; at += maxChunkBytes) stream.push(bytes.subarray(at, at + maxChunkBytes))
      })
    }

    const stream = new Duplex({
      read: () => {},
      write: (chunk: Buffer, _encoding, done) => {
        if (chunk[0] !== messageTypes.terminate) send(isStarted ? replyTo(chunk) : started)
        isStarted = true
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
