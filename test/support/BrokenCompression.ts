/** Replaces gzip with a version that is slow, or that fails as if memory were exhausted. */
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

/** Makes every gzip compression in this process fail until the scope closes. */
export const breakGzip = Effect.suspend(() => {
  const { createGzip, gzip } = zlib
  return Effect.acquireRelease(replaceWith(broken), () => replaceWith({ createGzip, gzip }))
})

/** Delays every gzip compression of a complete body in this process until the scope closes. */
export const slowGzipDown = (millis: number) =>
  Effect.suspend(() => {
    const { gzip } = zlib
    const slow = (data: zlib.InputType, options: zlib.ZlibOptions, callback: zlib.CompressCallback) => {
      setTimeout(() => gzip(data, options, callback), millis)
    }
    return Effect.acquireRelease(replaceWith({ gzip: slow }), () => replaceWith({ gzip }))
  })

/** Headers for a request whose response is to be compressed with gzip. */
export const gzipHeaders = { "Accept-Encoding": "gzip" }
