/**
 * Explains why a list is empty (D40). With `explain=true`, the reason is returned in the header `X-Empty-Reason` and
 * the field `message`.
 */

/** The reasons why a list may be empty. `describeEmptyReason` explains each of them in a sentence. */
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

/** The reason why a list is empty. */
export interface EmptyReason {
  readonly code: Code
  /** Only for `filtered`: the parameters that would have to be removed for the list to have rows. */
  readonly without?: ReadonlyArray<string>
}

/**
 * Formats the value of the header `X-Empty-Reason`: the code followed, for `filtered`, by the parameters, as in
 * `;without="min_gap max_gap"`.
 */
export const formatEmptyReason = ({ code, without }: EmptyReason) =>
  without === undefined ? code : `${code};without="${without.join(" ")}"`

/** Parses the header `X-Empty-Reason`. Returns undefined if the value has an unexpected format. */
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

/** Explains in a sentence for people why the list is empty. */
export const describeEmptyReason = ({ code, without = [] }: EmptyReason) =>
  code === "filtered"
    ? `There are rows without ${without.length > 1 ? "the filters" : "the filter"} ${without.join(" and ")}.`
    : sentences[code]
