/**
 * Converts vendors' symbols to the spelling of the SEC's ticker list, which `ingest edgar` uses (D41, spelling of
 * symbols).
 */

/**
 * The suffixes of preferred shares, warrants and units: as on the consolidated tape, which Massive follows too, and as
 * the SEC writes them. For other securities, such as rights, when-issued shares and series of warrants, no certain rule
 * is known.
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
