/** Replaces gzip with a version that is slow, or that fails as if memory were exhausted. */
import { Effect } from "effect"
import { randomBytes } from "node:crypto"
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

/**
 * Makes every gzip compression of a complete body in this process slow until the scope closes, by compressing much more
 * before it. Returns a function that returns how long the last compression took, in milliseconds.
 */
export const slowGzipDown = Effect.suspend(() => {
  const { gzip } = zlib
  // Their compression takes some tenths of a second.
  const slowBytes = randomBytes(8_000_000)
  let millis = 0
  const slow = (data: zlib.InputType, options: zlib.ZlibOptions, callback: zlib.CompressCallback) => {
    const began = performance.now()
    gzip(slowBytes, () =>
      gzip(data, options, (error, compressed) => {
        millis = performance.now() - began
        callback(error, compressed)
      }))
  }
  return Effect.as(
    Effect.acquireRelease(replaceWith({ gzip: slow }), () => replaceWith({ gzip })),
    () => millis,
  )
})

/** Headers for a request whose response is to be compressed with gzip. */
export const gzipHeaders = { "Accept-Encoding": "gzip" }
