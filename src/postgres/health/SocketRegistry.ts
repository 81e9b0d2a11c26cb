/**
 * Tracks this process's TCP sockets to one database address, so that `HealthProbe` can close them all.
 * docs/decisions/0021-database-socket-registry.md explains why this is not Effect's `CircuitBreaker`.
 */
import { Effect, Redacted } from "effect"
import { connect, Socket, type TcpNetConnectOpts } from "node:net"
import type { Duplex } from "node:stream"
import { makeMonotonicClock } from "../metrics/MonotonicTime.ts"

/** The open sockets to one database address. */
export interface SocketRegistry<Stream extends Duplex = Duplex> {
  /** Opens a socket for the driver. Fails immediately while connections are blocked. */
  readonly open: () => Stream
  /** Opens a socket for the health probe, even while connections are blocked. */
  readonly openForProbe: () => Stream
  /** Returns whether any socket has received a byte since the last call. */
  readonly hasReceivedBytes: () => boolean
  /**
   * Destroys sockets and returns how many were destroyed. If `openedBefore` is given, in monotonic milliseconds,
   * destroys only the sockets that were opened before then.
   */
  readonly destroySockets: (openedBefore?: number) => number
  /** Makes `open` fail with this message, until `unblock` is called. */
  readonly block: (message: string) => void
  readonly unblock: () => void
  readonly isBlocked: () => boolean
}

/**
 * Parses the address in the same way as the driver. This is needed because a custom `stream` bypasses the driver's own
 * connection code.
 */
export const parseDatabaseAddress = (address: string): TcpNetConnectOpts | { readonly path: string } => {
  const url = new URL(address)
  const hostname = url.hostname === "" ? "localhost" : decodeURIComponent(url.hostname.replace(/^\[(.*)\]$/, "$1"))
  const host = url.searchParams.get("host") ?? hostname
  const port = Number(url.searchParams.get("port") ?? (url.port === "" ? 5432 : url.port))
  // `noDelay` disables Nagle's algorithm, which would only delay statements, because the driver sends each statement in
  // a single write.
  return host.startsWith("/") ? { path: `${host}/.s.PGSQL.${port}` } : { host, port, noDelay: true }
}

/**
 * Creates the registry of the sockets that this process opens to the address in a database URL. It can tell whether the
 * server still sends anything, close sockets, and block new connections.
 *
 * `bytesSeen` is the number of bytes that a socket had received when `hasReceivedBytes` was last called. While
 * connections are blocked, `blockMessage` is the reason.
 */
export const makeSocketRegistry = Effect.fnUntraced(function* (url: Redacted.Redacted) {
  const now = yield* makeMonotonicClock
  const sockets = new Map<Socket, { readonly openedAt: number; bytesSeen: number }>()
  let blockMessage: string | undefined
  /**
   * Whether a socket that received bytes has closed since the last check. Even a refused connection proves that the
   * server is running.
   */
  let closedWithBytes = false

  const openForProbe = () => {
    const socket = connect(parseDatabaseAddress(Redacted.value(url)))
    const state = { openedAt: now(), bytesSeen: 0 }
    sockets.set(socket, state)
    socket.once("close", () => {
      sockets.delete(socket)
      closedWithBytes ||= socket.bytesRead > state.bytesSeen
    })
    return socket
  }

  /** Every socket removes itself from `sockets` when it closes. */
  const registry: SocketRegistry<Socket> = {
    open: () => blockMessage === undefined ? openForProbe() : new Socket().destroy(new Error(blockMessage)),
    openForProbe,
    hasReceivedBytes: () => {
      let hasReceived = closedWithBytes
      closedWithBytes = false
      // Updates `bytesSeen` of all sockets, so this must not stop at the first one that has received bytes.
      for (const [{ bytesRead }, state] of sockets) {
        hasReceived ||= bytesRead > state.bytesSeen
        state.bytesSeen = bytesRead
      }
      return hasReceived
    },
    // Without an argument, destroys all sockets.
    destroySockets: (openedBefore = Infinity) => {
      const old = Array.from(sockets).flatMap(([socket, { openedAt }]) => openedAt < openedBefore ? [socket] : [])
      old.forEach((socket) => socket.destroy())
      return old.length
    },
    block: (message) => {
      blockMessage = message
    },
    unblock: () => {
      blockMessage = undefined
    },
    isBlocked: () => blockMessage !== undefined,
  }
  return registry
})
