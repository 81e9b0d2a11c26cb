/** Makes the driver return `row(…)` in PostgreSQL's binary format, for `query/rows/RowEncoder.ts`. */
import { PgTypes } from "@effect/sql-pg"
import { Result } from "effect"
import { BinaryRecord } from "../BinaryRecord.ts"

/** The OID of PostgreSQL's type `record`. */
const recordType = 2249

const decodeField = (bytes: Uint8Array, type: number) => Result.getOrThrow(PgTypes.decode(bytes, type, 1))

const readRecord = (bytes: Uint8Array, offset: number, size: number) =>
  Result.succeed(new BinaryRecord(new DataView(bytes.buffer, bytes.byteOffset + offset, size), decodeField))

/**
 * Registers the record codec globally, for all of the driver's connections. With a separate registry for some
 * connections, the driver would no longer use its fast path for parameters.
 */
export const registerRecordType = () =>
  PgTypes.register(recordType, {
    encode: () => Result.fail(new PgTypes.CodecError({ message: "A record cannot be a parameter" })),
    decode: (bytes) => readRecord(bytes, 0, bytes.length),
    read: readRecord,
  })
