/**
 * The connections of this process to one address of a database. Node gives a socket no time after which a host that
 * says nothing counts as gone, so whoever learns it elsewhere (`Heartbeat.ts`) ends them all here, those that wait for
 * an answer and those that only think that they are open; and while the line is shut, a new one is refused at once
 * instead of waiting for the same host.
 */
import { Redacted } from "effect"
import { connect, Socket, type TcpNetConnectOpts } from "node:net"

export interface SocketRegistry {
  /** What a driver connects by. */
  readonly open: () => Socket
  /** The same while the line is shut: who watches it uses this. */
  readonly openForProbe: () => Socket
  /** Whether a byte has arrived over any of them since this was asked last. */
  readonly hasReceivedBytes: () => boolean
  /** Ends those that were opened before the moment, and says how many there were. */
  readonly destroySockets: (before?: number) => number
  /** From now on none is opened, for a reason that callers are told; without a reason they are again. */
  readonly setBlocked: (why?: string) => void
  readonly isBlocked: () => boolean
}

/** Where the driver would connect, whose `stream` replaces that: host, port and socket as it reads them itself. */
const target = (address: string): TcpNetConnectOpts | { readonly path: string } => {
  const url = new URL(address)
  const named = url.hostname === "" ? "localhost" : decodeURIComponent(url.hostname.replace(/^\[(.*)\]$/, "$1"))
  const host = url.searchParams.get("host") ?? named
  const port = Number(url.searchParams.get("port") ?? (url.port === "" ? 5432 : url.port))
  // A statement is one write and then a wait, so there is nothing to gather.
  return host.startsWith("/") ? { path: `${host}/.s.PGSQL.${port}` } : { host, port, noDelay: true }
}

export const makeSocketRegistry = (url: Redacted.Redacted): SocketRegistry => {
  const sockets = new Map<Socket, { readonly since: number; bytes: number }>()
  let refusal: string | undefined
  /** From one that has ended since: a server that only refuses is there. */
  let heardLast = false

  const openAnyway = () => {
    const socket = connect(target(Redacted.value(url)))
    const known = { since: performance.now(), bytes: 0 }
    sockets.set(socket, known)
    socket.once("close", () => {
      sockets.delete(socket)
      heardLast ||= socket.bytesRead > known.bytes
    })
    return socket
  }
  const open = () => refusal === undefined ? openAnyway() : new Socket().destroy(new Error(refusal))
  // Counted where TLS does not keep them from being seen.
  const heard = () => {
    let any = heardLast
    heardLast = false
    for (const [{ bytesRead }, known] of sockets) {
      any ||= bytesRead > known.bytes
      known.bytes = bytesRead
    }
    return any
  }
  const cut = (before = Infinity) => {
    const old = Array.from(sockets).flatMap(([socket, { since }]) => since < before ? [socket] : [])
    old.forEach((socket) => socket.destroy())
    return old.length
  }
  const shut = (why?: string) => {
    refusal = why
  }
  return {
    open,
    openForProbe: openAnyway,
    hasReceivedBytes: heard,
    destroySockets: cut,
    setBlocked: shut,
    isBlocked: () => refusal !== undefined,
  }
}

const lines = new WeakMap<() => unknown, SocketRegistry>()

/** The `stream` of a client's configuration, by which its line is found again. It leads to `url` and nowhere else. */
export const makeTrackedStream = (url: Redacted.Redacted) => {
  const line = makeSocketRegistry(url)
  lines.set(line.open, line)
  return line.open
}

/** None, where somebody made the client who wanted none. */
export const findSocketRegistry = ({ stream }: { readonly stream?: (() => unknown) | undefined }) =>
  stream === undefined ? undefined : lines.get(stream)
