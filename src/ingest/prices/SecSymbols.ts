/**
 * Converts vendors' symbols to the spelling of the SEC's ticker list, which `ingest edgar` uses (D41, spelling of
 * symbols).
 */
import { tickerPattern } from "../../contract/rules/Tickers.ts"

/**
 * The notations of vendors' symbols. Databento uses that of Nasdaq's trading systems, in which a hyphen marks a
 * preferred share. In all others, a hyphen separates a class, as a dot does in both.
 */
export type SymbolNotation = "consolidated tape" | "Nasdaq"

/**
 * Suffixes of preferred shares, warrants and units: first as written in the notation, and then as written by the SEC.
 * There is no reliable rule for other securities, such as rights, when-issued shares and series of warrants.
 */
const suffixes: Readonly<Record<SymbolNotation, ReadonlyArray<readonly [RegExp, string]>>> = {
  "consolidated tape": [
    [/(?<=^[A-Z]+)p(?=[A-Z]?$)/, "-P"],
    [/[.-]WS$/, "-WT"],
    [/[.-]U$/, "-UN"],
  ],
  Nasdaq: [
    [/(?<=^[A-Z]+)-(?=[A-Z]?$)/, "-P"],
    [/(?<=^[A-Z]+)(?:\+|\.WS)$/, "-WT"],
    [/(?<=^[A-Z]+)(?:=|\.U)$/, "-UN"],
  ],
}

/** Matches the symbols without a suffix above that can be converted, because only a dot has to become a hyphen. */
const plainPatterns: Readonly<Record<SymbolNotation, RegExp>> = {
  "consolidated tape": tickerPattern,
  Nasdaq: /^[A-Z0-9.]{1,16}$/,
}

const lettersPattern = /^[A-Z]{1,16}$/

/**
 * Returns the SEC's spelling of a symbol. Returns undefined if there is no reliable rule for its marks, such as the `r`
 * of rights in `LGLr`, or if the tables do not accept it.
 *
 * Examples from the consolidated tape are `BRK-B` for BRK.B, `BAC-PL` for BACpL and `ACHR-WT` for ACHR.WS. In Nasdaq's
 * notation, these symbols are BRK.B, BAC-L and ACHR+.
 */
export const toSecSymbol = (symbol: string, notation: SymbolNotation) => {
  if (lettersPattern.test(symbol)) return symbol
  const [mark, suffix] = suffixes[notation].find(([mark]) => mark.test(symbol)) ?? []
  if (mark === undefined || suffix === undefined) {
    return plainPatterns[notation].test(symbol) ? symbol.replaceAll(".", "-") : undefined
  }
  const converted = symbol.replace(mark, suffix).replaceAll(".", "-")
  return tickerPattern.test(converted) ? converted : undefined
}
