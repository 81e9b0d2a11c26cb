/** Writes symbols of vendors like the SEC's ticker list, and thus like `ingest edgar` (D41, spelling of symbols). */

/**
 * How the consolidated tape, and Massive with it, marks preferred shares, warrants and units, and how the SEC does.
 * Other marks, such as those of rights, when-issued shares and series of warrants, have no rule that is certain.
 */
const suffixes: ReadonlyArray<readonly [RegExp, string]> = [
  [/(?<=^[A-Z]+)p(?=[A-Z]?$)/, "-P"],
  [/[.-]WS$/, "-WT"],
  [/[.-]U$/, "-UN"],
]

const lettersPattern = /^[A-Z]+$/

/** Returns the SEC's spelling: `BRK-B` for BRK.B, `BAC-PL` for BACpL, `ACHR-WT` for ACHR.WS. */
export const toSecSymbol = (text: string) => {
  const symbol = text.trim()
  if (lettersPattern.test(symbol)) return symbol
  const [mark, suffix] = suffixes.find(([mark]) => mark.test(symbol)) ?? ["", ""]
  return symbol.replace(mark, suffix).replaceAll(".", "-")
}
