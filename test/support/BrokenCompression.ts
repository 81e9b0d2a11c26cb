/** Replaces gzip with one that fails, as gzip does when there is no memory left. */
import { Effect } from "effect"
import { syncBuiltinESMExports } from "node:module"
import { Transform } from "node:stream"
import zlib from "node:zlib"

const fault = new Error("gzip is out of memory")

const broken = {
  gzip: (_data: unknown, _options: unknown, callback: (error: Error) => void) => setImmediate(callback, fault),
  createGzip: () =>
    new Transform({ transform: (_chunk, _encoding, done) => done(fault), flush: (done) => done(fault) }),
}

const replaceWith = (functions: object) =>
  Effect.sync(() => {
    Object.entries(functions).forEach(([name, value]) => Object.defineProperty(zlib, name, { value }))
    syncBuiltinESMExports()
  })

/** Every compression with gzip in this process fails until the scope closes. */
export const breakGzip = Effect.suspend(() => {
  const { createGzip, gzip } = zlib
  return Effect.acquireRelease(replaceWith(broken), () => replaceWith({ createGzip, gzip }))
})

/** The headers of a request whose response is compressed with gzip. */
export const gzipHeaders = { "Accept-Encoding": "gzip" }
