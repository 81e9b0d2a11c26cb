/** D16: how a `numeric` arrives: as the text of its digits, without the zeros at the end, which say nothing. */
import { PgTypes } from "@effect/sql-pg"
import { Result } from "effect"

const builtIn = PgTypes.makeRegistry()

const int16 = (bytes: Uint8Array, at: number) => (((bytes[at] ?? 0) << 8) | (bytes[at + 1] ?? 0)) << 16 >> 16

/** PostgreSQL keeps decimals by groups of four digits; what each of them reads, made once. */
const groups = Array.from({ length: 10_000 }, (_, number) => String(number))
const inner = groups.map((digits) => digits.padStart(4, "0"))
const fractions = inner.map((digits, number) => number === 0 ? "" : `.${digits.replace(/0+$/, "")}`)

const canonical = (text: string) => text.includes(".") ? text.replace(/\.?0+$/, "") : text

/** Up to twelve digits before the point and four after it: all but a few. What is beyond goes the driver's way. */
const read = (bytes: Uint8Array, offset: number, size: number) => {
  const [count, weight, sign] = [int16(bytes, offset), int16(bytes, offset + 2), int16(bytes, offset + 4)]
  const isShort = count > 0 && weight >= -1 && weight <= 2 && count <= weight + 2 && (sign === 0 || sign === 0x4000)
  if (!isShort) return longWay(bytes, offset, size)
  let text = weight < 0 ? "0" : groups[int16(bytes, offset + 8)] ?? ""
  for (let at = 1; at <= weight; at += 1) text += at < count ? inner[int16(bytes, offset + 8 + at * 2)] : "0000"
  if (count === weight + 2) text += fractions[int16(bytes, offset + 10 + weight * 2)]
  return Result.succeed(sign === 0 ? text : `-${text}`)
}

const longWay = (bytes: Uint8Array, offset: number, size: number) =>
  Result.map(
    PgTypes.decode(bytes.subarray(offset, offset + size), PgTypes.OID.numeric, 1, builtIn),
    (text) => canonical(String(text)),
  )

/** The driver's types, with this one. */
export const makeTypeRegistry = () => {
  const registry = PgTypes.makeRegistry()
  registry.register(PgTypes.OID.numeric, {
    encode: (text: string) => PgTypes.encode(text, PgTypes.OID.numeric, builtIn),
    decode: (bytes) => read(bytes, 0, bytes.length),
    read,
  })
  return registry
}
