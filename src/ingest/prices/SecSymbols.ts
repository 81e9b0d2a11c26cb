/**
 * Converts vendors' symbols to the spelling of the SEC's ticker list, which `ingest edgar` uses (D41, spelling of
 * symbols).
 */

/**
 * Suffixes of preferred shares, warrants and units: first as written by the consolidated tape and by Massive, and then
 * as written by the SEC. There is no reliable rule for other securities, such as rights, when-issued shares and series
 * of warrants.
 */
const suffixes: ReadonlyArray<readonly [RegExp, string]> = [
  [/(?<=^[A-Z]+)p(?=[A-Z]?$)/, "-P"],
  [/[.-]WS$/, "-WT"],
  [/[.-]U$/, "-UN"],
]

const lettersPattern = /^[A-Z]+$/

/** Returns the SEC's spelling of a symbol: `BRK-B` for BRK.B, `BAC-PL` for BACpL, `ACHR-WT` for ACHR.WS. */
export const toSecSymbol = (text: string) => {
  const symbol = text.trim()
  if (lettersPattern.test(symbol)) return symbol
  const [mark, suffix] = suffixes.find(([mark]) => mark.test(symbol)) ?? ["", ""]
  return symbol.replace(mark, suffix).replaceAll(".", "-")
}
