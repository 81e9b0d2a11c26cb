/** The network between the service and its database, which a test lets stall or break. */
import { Effect } from "effect"
import { connect, createServer, type Socket } from "node:net"

export const proxy = Effect.fnUntraced(function* (target: number) {
  const pairs = new Set<readonly [Socket, Socket]>()
  let stalled = false
  const server = createServer((near) => {
    const far = connect(target, "127.0.0.1")
    const pair = [near, far] as const
    pairs.add(pair)
    const end = () => {
      pairs.delete(pair)
      pair.forEach((socket) => socket.destroy())
    }
    pair.forEach((socket) => socket.on("error", end).on("close", end))
    near.pipe(far)
    far.pipe(near)
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
  const each = (act: (socket: Socket) => void) => Effect.sync(() => pairs.forEach((pair) => pair.forEach(act)))
  /** From now on nothing passes, and nobody is told. */
  const stall = Effect.andThen(
    Effect.sync(() => {
      stalled = true
    }),
    each((socket) => socket.pause()),
  )
  const resume = Effect.andThen(
    Effect.sync(() => {
      stalled = false
    }),
    each((socket) => socket.resume()),
  )
  /** Every connection ends at once. */
  const cut = each((socket) => socket.resetAndDestroy())
  return { port, stall, resume, cut }
})
