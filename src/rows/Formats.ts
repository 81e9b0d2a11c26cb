/** In what a list can be answered: by `format`, or else by the header `Accept` (RFC 9110, 12.5.1). */

export const listFormats = ["json", "csv", "ndjson"] as const
export type ListFormat = typeof listFormats[number]

/** What the body says it is. */
export const contentTypes: Readonly<Record<ListFormat, string>> = {
  json: "application/json",
  csv: "text/csv; charset=utf-8; header=present",
  ndjson: "application/x-ndjson",
}

/** The types by which each is asked for; the format that comes first wins where a client wants several alike. */
const asked: ReadonlyArray<readonly [ListFormat, ReadonlyArray<string>]> = [
  ["json", ["application/json"]],
  ["csv", ["text/csv"]],
  ["ndjson", ["application/x-ndjson", "application/ndjson", "application/jsonl"]],
]

interface Range {
  readonly type: string
  readonly quality: number
}

const weight = /^q=(0(?:\.\d{0,3})?|1(?:\.0{0,3})?)$/

const rangesOf = (accept: string): ReadonlyArray<Range> =>
  accept.toLowerCase().split(",").map((member) => {
    const [type = "", ...parameters] = member.split(";").map((part) => part.trim())
    const sent = parameters.flatMap((parameter) => weight.exec(parameter)?.[1] ?? [])
    return { type, quality: Number(sent[0] ?? 1) }
  })

/** How much one type is wanted: by the range that names it most exactly, of which there are three kinds. */
const wanted = (ranges: ReadonlyArray<Range>, type: string) => {
  const [major = ""] = type.split("/", 1)
  for (const [at, name] of [type, `${major}/*`, "*/*"].entries()) {
    const found = ranges.find((range) => range.type === name)
    if (found !== undefined) return { quality: found.quality, exactness: 3 - at }
  }
  return { quality: 0, exactness: 0 }
}

interface Choice {
  readonly format: ListFormat
  readonly quality: number
  readonly exactness: number
}

const chosen = (accept: string): ListFormat => {
  const ranges = rangesOf(accept)
  let best: Choice = { format: "json", quality: 0, exactness: 0 }
  for (const [format, types] of asked) {
    for (const type of types) {
      const { exactness, quality } = wanted(ranges, type)
      const isMore = quality === best.quality ? exactness > best.exactness : quality > best.quality
      if (quality > 0 && isMore) best = { format, quality, exactness }
    }
  }
  return best.format
}

const usual = new Set([undefined, "*/*", "application/json", "application/json, text/plain, */*"])

/**
 * What the client wants most; of two that it wants alike the one that it names more exactly, then JSON. Who accepts
 * none of the three gets JSON: an answer that can be read is of more use than a 406, and all errors are JSON anyway.
 */
export const negotiateFormat = (accept: string | undefined): ListFormat =>
  accept === undefined || usual.has(accept) ? "json" : chosen(accept)

/**
 * What is said of a file: how many rows it has and, where that is known before it is sent, the SHA-256 of it, which is
 * that of its bytes before any compression, so of what a client has in hand. A browser keeps CSV under a name.
 */
export const makeFileHeaders = (
  { format, rows }: { readonly format: "csv" | "ndjson"; readonly rows: number | undefined },
  route: string | undefined,
): Record<string, string> => {
  const name = (route ?? "").split("/").slice(2).join("-") || "list"
  return {
    ...(rows === undefined ? {} : { "X-Row-Count": String(rows) }),
    ...(format === "csv" ? { "Content-Disposition": `attachment; filename="${name}.csv"` } : {}),
  }
}

/** RFC 9530 and what updates it, HTTP Unencoded Digest. */
export const digestHeaderName = "Unencoded-Digest"

/** As a value of that field. */
export const formatDigest = (sha256: string) => `sha-256=:${sha256}:`
