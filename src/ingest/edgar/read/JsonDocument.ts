/**
 * Decodes the SEC's JSON documents. The reasons in rejections do not quote the documents, which may contain personal
 * data.
 */
import { Result, Schema, SchemaGetter, SchemaIssue } from "effect"
import * as Column from "../../../contract/rows/Columns.ts"
import { DocumentRejected } from "../fetch/DocumentRejected.ts"

const formatIssue = SchemaIssue.makeFormatterStandardSchemaV1()

const formatPath = (path: ReadonlyArray<unknown>) =>
  path.map((key) => typeof key === "number" ? `[${key}]` : `.${String(key)}`).join("").replace(/^\./, "")

/** Describes the first error by its path in the document. Omits the value, which may be personal data. */
const describeIssue = ({ issue }: Schema.SchemaError) => {
  const [first] = formatIssue(issue).issues
  const path = formatPath(first?.path ?? [])
  return path === "" ? "does not have the expected form" : `has an unexpected value at ${path}`
}

const parseJson = (text: string, url: string): Result.Result<unknown, DocumentRejected> => {
  try {
    return Result.succeed(JSON.parse(text))
  } catch {
    // The SEC may send an HTML page with status 200 if requests exceed its rate limit.
    const reason = /^\s*</.test(text) ? "is an HTML or XML page instead of JSON" : "is not complete JSON"
    return Result.fail(new DocumentRejected({ url, reason }))
  }
}

type Decoder<A, Input> = (input: Input, url: string) => Result.Result<A, DocumentRejected>

/** Returns a decoder for parsed JSON. It ignores properties that are not in the schema. */
export const makeParsedJsonDecoder = <A, I>(schema: Schema.Codec<A, I>): Decoder<A, unknown> => {
  const decode = Schema.decodeUnknownResult(schema)
  return (value, url) =>
    Result.mapError(decode(value), (error) => new DocumentRejected({ url, reason: describeIssue(error) }))
}

/** Returns a decoder for JSON text. */
export const makeJsonTextDecoder = <A, I>(schema: Schema.Codec<A, I>): Decoder<A, string> => {
  const decode = makeParsedJsonDecoder(schema)
  return (text, url) => Result.flatMap(parseJson(text, url), (value) => decode(value, url))
}

/** A CIK as a number or a string, with or without leading zeros. Decoded to ten digits. */
export const Cik = Schema.Union([Schema.Int, Schema.String]).pipe(
  Schema.decodeTo(Schema.String.check(Schema.isPattern(/^\d{10}$/)), {
    decode: SchemaGetter.transform((cik) => String(cik).padStart(10, "0")),
    encode: SchemaGetter.passthrough({ strict: false }),
  }),
)

/**
 * A form name, such as `10-K/A`. Unlike other text, it is not normalized, so it must already be a valid cell of a data
 * file.
 */
export const SecFormName = Column.text("SEC form.").schemas.insert

export const AccessionNumber = Schema.String.check(Schema.isPattern(/^\d{10}-\d{2}-\d{6}$/))

/** Fails if the document is about a company other than the one in its URL. */
export const checkCikMatchesUrl = (cik: string, url: string): Result.Result<void, DocumentRejected> => {
  const requested = /CIK(\d{10})/.exec(url)?.[1]
  return requested === undefined || requested === cik
    ? Result.void
    : Result.fail(new DocumentRejected({ url, reason: `is about the company with the CIK ${cik}` }))
}

/**
 * Normalizes text for a data file cell: trims it, removes NUL characters, and replaces lone surrogates. Returns null if
 * no text remains.
 */
export const normalizeCellText = (text: string) => {
  const trimmed = text.toWellFormed().replaceAll("\0", "").trim()
  return trimmed === "" ? null : trimmed
}
