/** Which dates of a filing are believed: filers type them by hand. */

/**
 * A date that is this many years or more before its filing is not believed. It is rather one with a wrong decade or
 * century: 2016 for 2026, or 0022. Late reports and amendments, which are about earlier days, come within a few years.
 */
const maxYears = 10

/** Returns why a date that a filing states is not believed; undefined if it is. Both dates are `YYYY-MM-DD`. */
export const findDateDoubt = (date: string, filingDate: string): string | undefined => {
  if (date > filingDate) return "is after the filing"
  const firstYear = String(Number(filingDate.slice(0, 4)) - maxYears).padStart(4, "0")
  return date <= `${firstYear}${filingDate.slice(4)}` ? "is ten years or more before the filing" : undefined
}
