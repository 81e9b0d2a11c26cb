/** List formats, selected by the parameter `format` or the header `Accept` (RFC 9110, 12.5.1). */

/** The formats available for a page of a list. */
export const pageFormats = ["json", "csv", "ndjson"] as const

/** An element of `pageFormats`. */
export type PageFormat = typeof pageFormats[number]

/** The formats available for an export, which is a single file. Parquet is available for exports only. */
export type ExportFormat = "csv" | "ndjson" | "parquet"

/** The values of the parameter `format`. */
export const listFormats = [...pageFormats, "parquet"] as const

/** An element of `listFormats`. */
export type ListFormat = typeof listFormats[number]

/** The `Content-Type` for each format. */
export const listContentTypes: Readonly<Record<ListFormat, string>> = {
  json: "application/json",
  csv: "text/csv; charset=utf-8; header=present",
  ndjson: "application/x-ndjson",
  parquet: "application/vnd.apache.parquet",
}

type AcceptedTypes<Name> = ReadonlyArray<readonly [Name, ReadonlyArray<string>]>

/**
 * The media types in `Accept` that select each format. If a client accepts several formats equally, the first one
 * listed here wins.
 */
const acceptedTypes: AcceptedTypes<PageFormat> = [
  ["json", ["application/json"]],
  ["csv", ["text/csv"]],
  ["ndjson", ["application/x-ndjson", "application/ndjson", "application/jsonl"]],
]

const acceptedExportTypes: AcceptedTypes<ListFormat> = [...acceptedTypes, ["parquet", [listContentTypes.parquet]]]

interface MediaRange {
  readonly type: string
  readonly quality: number
}

const qualityParameter = /^q=(0(?:\.\d{0,3})?|1(?:\.0{0,3})?)$/

/** Splits an `Accept` header into media ranges. A range without a valid `q` gets quality 1. */
const parseAccept = (accept: string): ReadonlyArray<MediaRange> =>
  accept.toLowerCase().split(",").map((member) => {
    const [type = "", ...parameters] = member.split(";").map((part) => part.trim())
    const qualities = parameters.flatMap((parameter) => qualityParameter.exec(parameter)?.[1] ?? [])
    return { type, quality: Number(qualities[0] ?? 1) }
  })

/**
 * Returns how much the client wants a media type. `quality` is the value of `q`, from 0 to 1, in the most specific
 * range that matches the type: `text/csv` before `text/*`, and `text/*` before the range that matches any type.
 * `specificity` is 3, 2 or 1 for these three ranges. Both are 0 if no range matches.
 */
const rankType = (ranges: ReadonlyArray<MediaRange>, type: string) => {
  const [major = ""] = type.split("/", 1)
  for (const [index, rangeType] of [type, `${major}/*`, "*/*"].entries()) {
    const found = ranges.find((range) => range.type === rangeType)
    if (found !== undefined) return { quality: found.quality, specificity: 3 - index }
  }
  return { quality: 0, specificity: 0 }
}

/** A format, with the rank of the media type by which the client accepts it. See `rankType`. */
interface Choice<Name> {
  readonly format: Name
  readonly quality: number
  readonly specificity: number
}

/**
 * Returns the format that the client prefers according to its `Accept` header: the one with the highest quality, then
 * the one that is named most specifically, then the one listed first in `acceptedTypes`. Returns `json` if the client
 * accepts none of them.
 */
const chooseFormat = <Name>(accept: string, acceptedTypes: AcceptedTypes<Name>): Name | "json" => {
  const ranges = parseAccept(accept)
  let best: Choice<Name | "json"> = { format: "json", quality: 0, specificity: 0 }
  for (const [format, types] of acceptedTypes) {
    for (const type of types) {
      const { quality, specificity } = rankType(ranges, type)
      const isBetter = quality === best.quality ? specificity > best.specificity : quality > best.quality
      if (quality > 0 && isBetter) best = { format, quality, specificity }
    }
  }
  return best.format
}

/** Common `Accept` values that mean JSON and can be recognized without parsing. */
const jsonAccepts = new Set(["*/*", "application/json", "application/json, text/plain, */*"])

const negotiate = <Name>(accept: string | undefined, acceptedTypes: AcceptedTypes<Name>) =>
  accept === undefined || jsonAccepts.has(accept) ? "json" : chooseFormat(accept, acceptedTypes)

/**
 * Returns the page format with the highest quality. In a tie, the more specific range wins, then the format listed
 * first. A client that accepts none of the three formats gets JSON rather than a 406, because errors are JSON as well.
 */
export const negotiatePageFormat = (accept: string | undefined): PageFormat => negotiate(accept, acceptedTypes)

/**
 * Returns the format for an export. The rules are those of `negotiatePageFormat`, but Parquet is available too. Returns
 * `json` if the client prefers JSON or accepts no export format.
 */
export const negotiateExportFormat = (accept: string | undefined): ListFormat => negotiate(accept, acceptedExportTypes)

/**
 * Returns headers for an export file, keyed by lower-case name: the number of rows, if it is known in advance, and a
 * file name if the format is CSV or Parquet. `route` is the endpoint's path.
 */
export const makeListFileHeaders = (
  { format, rows }: { readonly format: ExportFormat; readonly rows: number | undefined },
  route: string,
): Record<string, string> => {
  const name = route.split("/").slice(2).join("-") || "list"
  return {
    ...(rows === undefined ? {} : { "x-row-count": String(rows) }),
    ...(format === "ndjson" ? {} : { "content-disposition": `attachment; filename="${name}.${format}"` }),
  }
}

/**
 * The header that contains the SHA-256 digest of a file before compression (HTTP Unencoded Digest, which updates RFC
 * 9530).
 */
export const digestHeaderName = "unencoded-digest"

/** Formats a Base64-encoded SHA-256 digest as a header value. */
export const formatDigestHeader = (sha256: string) => `sha-256=:${sha256}:`
