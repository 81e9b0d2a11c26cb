/** Checks the plausibility of dates in filings, which filers type by hand. */

/**
 * A date that is at least this many years before its filing is considered wrong. Its year probably has a typing error,
 * as in 2016 for 2026, or 0022. Late reports and amendments concern earlier days, but are filed within a few years.
 */
const maxYears = 10

const subtractYears = (date: string, years: number) =>
  `${String(Number(date.slice(0, 4)) - years).padStart(4, "0")}${date.slice(4)}`

/**
 * Returns why a date that should not be before `firstDay` seems to have a wrong year, or undefined if it does not.
 * `event` says what happened on `firstDay`. All dates are in the form `YYYY-MM-DD`.
 */
export const findYearDoubt = (
  date: string,
  { event, filingDate, firstDay }: { readonly event: string; readonly filingDate: string; readonly firstDay: string },
): string | undefined => {
  if (date >= firstDay) return undefined
  if (date <= subtractYears(firstDay, 1)) return `is a year or more before ${event}`
  // With its year increased by one, the date would be within the period, so the year is probably a typing error. Other
  // dates before the period are accepted, because filers sometimes state a later transaction as the first one.
  const yearLater = subtractYears(date, -1)
  return yearLater >= firstDay && yearLater <= filingDate ? `is before ${event} by its year` : undefined
}

/**
 * Returns why a date stated in a filing is implausible, or undefined if it is plausible. `firstDay` is the day of the
 * first event that the filing reports, or null if it does not state one.
 */
export const findDateDoubt = (date: string, filingDate: string, firstDay: string | null): string | undefined => {
  if (date > filingDate) return "is after the filing"
  if (date <= subtractYears(filingDate, maxYears)) return "is ten years or more before the filing"
  return firstDay === null
    ? undefined
    : findYearDoubt(date, { firstDay, filingDate, event: "the period of the report" })
}
