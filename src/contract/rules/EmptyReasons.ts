/**
 * Why a list has no rows (D40). With `explain=true`, the header `X-Empty-Reason` and the field `message` state the
 * reason.
 */

/** The codes for the reasons why a list is empty. */
export const emptyReasonCodes = [
  "page_beyond_end",
  "symbol_not_used",
  "filtered",
  "no_rows_for_symbol",
  "unknown_symbol",
  "no_rows",
  "undetermined",
] as const
type Code = typeof emptyReasonCodes[number]

/** The reason why a list has no rows. */
export interface EmptyReason {
  readonly code: Code
  /** For `filtered`: the parameters without which there would be rows. */
  readonly without?: ReadonlyArray<string>
}

/** Formats the header `X-Empty-Reason`: the code and, for `filtered`, `;without="min_gap max_gap"`. */
export const formatEmptyReason = ({ code, without }: EmptyReason) =>
  without === undefined ? code : `${code};without="${without.join(" ")}"`

/** Parses the header `X-Empty-Reason`; returns undefined if it has another format. */
export const parseEmptyReasonHeader = (header: string): EmptyReason | undefined => {
  const [, name, without] = /^(\w+)(?:;without="([^"]*)")?$/.exec(header) ?? []
  const code = emptyReasonCodes.find((code) => code === name)
  if (code === undefined) return undefined
  return without === undefined ? { code } : { code, without: without.split(" ") }
}

const sentences: Readonly<Record<Exclude<Code, "filtered">, string>> = {
  page_beyond_end: "The page is beyond the last one.",
  symbol_not_used: "There are such rows, but from days when the company did not use the symbol.",
  no_rows_for_symbol: "The list has no rows of the requested symbols.",
  unknown_symbol: "No list has rows of the requested symbols.",
  no_rows: "The list has no rows.",
  undetermined: "The reason was not found in time. Send fewer filters.",
}

/** Returns the reason as a sentence for people. */
export const describeEmptyReason = ({ code, without = [] }: EmptyReason) =>
  code === "filtered"
    ? `There are rows without ${without.length > 1 ? "the filters" : "the filter"} ${without.join(" and ")}.`
    : sentences[code]
