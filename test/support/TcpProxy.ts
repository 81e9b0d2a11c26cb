/**
 * A TCP proxy in front of the database. Tests can stall it, reset its connections, or redirect it to another server.
 *
 * ```ts
 * const proxy = yield* startTcpProxy(server.port)
 * const url = Redacted.make(`postgres://user:password@127.0.0.1:${proxy.port}/postgres`)
 * const through = yield* Layer.build(databaseClientLayer({ url, applicationName: "stalled" }))
 * const port = yield* Effect.provide(startServiceInstance(), through)
 * yield* proxy.stall
 * // Requests to `port` get no reply from the database until `proxy.resume`.
 * ```
 */
import { Effect } from "effect"
import { connect, createServer, type Socket } from "node:net"
import { Transform } from "node:stream"

/**
 * Starts a proxy on a free port that forwards to the port `first` of this machine. It stops when the scope closes. A
 * pair consists of the sockets to the client and to the server of one connection. The functions that it returns are
 * described below; `connections` and `cuts` return how many connections there were, and how many of them `cutBefore`
 * has cut.
 */
export const startTcpProxy = Effect.fnUntraced(function* (first: number) {
  const pairs = new Set<readonly [Socket, Socket]>()
  let [stalled, target, connections] = [false, first, 0]
  let [cutText, cuts] = ["", 0]
  /** Creates a stream that forwards what the server sends, but ends immediately before `cutText`. */
  const makeCutter = () => {
    const cutter = new Transform({
      transform: (chunk: Buffer, _, done) => {
        const at = cutText === "" ? -1 : chunk.indexOf(cutText)
        if (at < 0) return done(null, chunk)
        cutText = ""
        cuts += 1
        cutter.push(chunk.subarray(0, at))
        cutter.push(null)
      },
    })
    return cutter
  }
  const server = createServer((clientSocket) => {
    connections += 1
    const serverSocket = connect(target, "127.0.0.1")
    const pair = [clientSocket, serverSocket] as const
    pairs.add(pair)
    const end = () => {
      pairs.delete(pair)
      pair.forEach((socket) => socket.destroy())
    }
    pair.forEach((socket) => socket.on("error", end).on("close", end))
    clientSocket.pipe(serverSocket)
    serverSocket.pipe(makeCutter()).pipe(clientSocket)
    if (stalled) pair.forEach((socket) => socket.pause())
  })
  const port = yield* Effect.acquireRelease(
    Effect.callback<number>((resume) => {
      server.listen(0, "127.0.0.1", () => {
        const address = server.address()
        resume(Effect.succeed(typeof address === "object" && address !== null ? address.port : 0))
      })
    }),
    () =>
      Effect.sync(() => {
        server.close()
        pairs.forEach((pair) => pair.forEach((socket) => socket.destroy()))
      }),
  )
  const forEachSocket = (act: (socket: Socket) => void) => Effect.sync(() => pairs.forEach((pair) => pair.forEach(act)))
  /** Stops all traffic and keeps the connections open. */
  const stall = Effect.andThen(
    Effect.sync(() => {
      stalled = true
    }),
    forEachSocket((socket) => socket.pause()),
  )
  const resume = Effect.andThen(
    Effect.sync(() => {
      stalled = false
    }),
    forEachSocket((socket) => socket.resume()),
  )
  /** Resets all connections. */
  const cut = forEachSocket((socket) => socket.resetAndDestroy())
  /** Closes the next connection on which the server sends `text`, immediately before the text is forwarded. */
  const cutBefore = (text: string) =>
    Effect.sync(() => {
      cutText = text
    })
  /** Directs new connections to another port without stalling them. Existing connections are not affected. */
  const lead = (port: number) =>
    Effect.sync(() => {
      target = port
      stalled = false
    })
  return { port, stall, resume, cut, cutBefore, lead, connections: () => connections, cuts: () => cuts }
})
