/** Which dates of a filing are believed: filers type them by hand. */

/**
 * A date that is this many years or more before its filing is not believed. It is rather one with a wrong decade or
 * century: 2016 for 2026, or 0022. Late reports and amendments, which are about earlier days, come within a few years.
 */
const maxYears = 10

const subtractYears = (date: string, years: number) =>
  `${String(Number(date.slice(0, 4)) - years).padStart(4, "0")}${date.slice(4)}`

/**
 * Returns why a date that a filing states is not believed; undefined if it is. `firstDay` is the day of the first event
 * that the filing reports, if it states one. All dates are `YYYY-MM-DD`.
 */
export const findDateDoubt = (date: string, filingDate: string, firstDay: string | null): string | undefined => {
  if (date > filingDate) return "is after the filing"
  if (date <= subtractYears(filingDate, maxYears)) return "is ten years or more before the filing"
  if (firstDay === null || date >= firstDay) return undefined
  if (date <= subtractYears(firstDay, 1)) return "is a year or more before the period of the report"
  // A later transaction whose year is typed a year early. Other dates before the period are believed, because filers
  // also take another of the transactions for the first one.
  const yearLater = subtractYears(date, -1)
  return yearLater >= firstDay && yearLater <= filingDate ? "is before the period of the report by its year" : undefined
}
