/** Creates and validates request ids (D12). */
import { redactApiKeys } from "./Errors.ts"

const makePrefix = (now: number) => {
  const time = now.toString(16).padStart(12, "0")
  return `${time.slice(0, 8)}-${time.slice(8)}-7`
}

let last = { now: 0, prefix: makePrefix(0) }

/** The end of every id that this process creates. It is random, so two processes never create the same id. */
export const requestIdSuffix = crypto.randomUUID().slice(18)

let number = 0

/**
 * Creates a UUID version 7. It consists of the time, a number from 0 to 4095 that differs within a millisecond, and the
 * suffix of the process. Usage can therefore store just the number (`UsagePacking.ts`). The number begins at random in
 * each millisecond, so that a client cannot count how many other requests came between two of its own.
 */
export const makeRequestId = (now = Date.now()) => {
  if (now === last.now) number = (number + 1) % 0x1000
  else {
    last = { now, prefix: makePrefix(now) }
    number = Math.floor(Math.random() * 0x1000)
  }
  return last.prefix + (0x1000 + number).toString(16).slice(1) + requestIdSuffix
}

const hexDigits = "0123456789abcdef"

/**
 * Whether the hexadecimal digits of an id from `start` up to `end` represent the number. It compares one digit at a
 * time, from the last, because it runs for every request and this allocates nothing.
 */
const hasDigits = (id: string, start: number, end: number, number: number) => {
  let rest = number
  for (let place = end - 1; place >= start; place--) {
    if (id[place] !== hexDigits[rest % 16]) return false
    rest = Math.floor(rest / 16)
  }
  return rest === 0
}

/**
 * Returns the number in an id that this process created at the given time, in milliseconds since 1970; undefined for
 * any other id.
 */
export const readRequestNumber = (id: string, createdAt: number): number | undefined => {
  if (id.length !== 36 || !id.endsWith(requestIdSuffix) || id[8] !== "-" || !id.startsWith("-7", 13)) return undefined
  const number = Number.parseInt(id.slice(15, 18), 16)
  // The time has twelve hexadecimal digits: eight before the first hyphen, four after it.
  const [high, low] = [Math.floor(createdAt / 0x1_0000), createdAt % 0x1_0000]
  return hasDigits(id, 0, 8, high) && hasDigits(id, 9, 13, low) && hasDigits(id, 15, 18, number) ? number : undefined
}

const uuidV7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/

const endOfYear9999 = Date.parse("9999-12-31T23:59:59.999Z")

/** Returns the time in an id that is a UUID version 7, in milliseconds since 1970; undefined for any other id. */
export const parseRequestIdTime = (id: string): number | undefined => {
  if (!uuidV7.test(id)) return undefined
  const time = Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16)
  return time <= endOfYear9999 ? time : undefined
}

const validId = /^[A-Za-z0-9._-]{1,128}$/

/** Whether clients may choose this id for a request. */
export const isValidRequestId = (id: string) => validId.test(id)

/**
 * Returns the client's id if it is valid and contains no API key, because ids are stored and keys must not be.
 * Otherwise, returns a new id.
 */
export const resolveRequestId = (clientId: string | undefined, now?: number) =>
  clientId !== undefined && isValidRequestId(clientId) && redactApiKeys(clientId) === clientId
    ? clientId
    : makeRequestId(now)
