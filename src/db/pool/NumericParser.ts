/** Decodes PostgreSQL's `numeric` to decimal text without trailing zeros (D16: numbers). */
import { PgTypes } from "@effect/sql-pg"
import { Result } from "effect"
import { RowRecord } from "../../rows/RowRecord.ts"

const builtIn = PgTypes.makeRegistry()

const readInt16 = (bytes: Uint8Array, offset: number) =>
  (((bytes[offset] ?? 0) << 8) | (bytes[offset + 1] ?? 0)) << 16 >> 16

/** The text of every group of four decimal digits, PostgreSQL's unit for `numeric`, at each position in a number. */
const leadingGroups = Array.from({ length: 10_000 }, (_, value) => String(value))
const innerGroups = leadingGroups.map((digits) => digits.padStart(4, "0"))
const fractions = innerGroups.map((digits, value) => value === 0 ? "" : `.${digits.replace(/0+$/, "")}`)

const removeTrailingZeros = (text: string) => text.includes(".") ? text.replace(/\.?0+$/, "") : text

const decodeWithDriver = (bytes: Uint8Array, offset: number, size: number) =>
  Result.map(
    PgTypes.decode(bytes.subarray(offset, offset + size), PgTypes.OID.numeric, 1, builtIn),
    (text) => removeTrailingZeros(String(text)),
  )

/** Fast path for up to twelve digits before the decimal point and four after it; the driver decodes all others. */
const decodeNumeric = (bytes: Uint8Array, offset: number, size: number) => {
  const [count, weight, sign] = [readInt16(bytes, offset), readInt16(bytes, offset + 2), readInt16(bytes, offset + 4)]
  const isShort = count > 0 && weight >= -1 && weight <= 2 && count <= weight + 2 && (sign === 0 || sign === 0x4000)
  if (!isShort) return decodeWithDriver(bytes, offset, size)
  let text = weight < 0 ? "0" : leadingGroups[readInt16(bytes, offset + 8)] ?? ""
  for (let group = 1; group <= weight; group += 1) {
    text += group < count ? innerGroups[readInt16(bytes, offset + 8 + group * 2)] : "0000"
  }
  if (count === weight + 2) text += fractions[readInt16(bytes, offset + 10 + weight * 2)]
  return Result.succeed(sign === 0 ? text : `-${text}`)
}

const recordOid = 2249

const decodeField = (bytes: Uint8Array, type: number) => Result.getOrThrow(PgTypes.decode(bytes, type, 1, builtIn))

const readRecord = (bytes: Uint8Array, offset: number, size: number) =>
  Result.succeed(new RowRecord(bytes, offset, size, decodeField))

/** The driver's type registry, with this decoder for `numeric`. It leaves `row(…)` in PostgreSQL's format. */
export const makeTypeRegistry = () => {
  const registry = PgTypes.makeRegistry()
  registry.register(PgTypes.OID.numeric, {
    encode: (text: string) => PgTypes.encode(text, PgTypes.OID.numeric, builtIn),
    decode: (bytes) => decodeNumeric(bytes, 0, bytes.length),
    read: decodeNumeric,
  })
  registry.register(recordOid, {
    encode: () => Result.fail(new PgTypes.CodecError({ message: "A record cannot be a parameter" })),
    decode: (bytes) => readRecord(bytes, 0, bytes.length),
    read: readRecord,
  })
  return registry
}
