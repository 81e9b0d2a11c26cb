/** Reads values from the SEC's XML forms. Failure reasons do not quote the document. */
import { Result, Schema } from "effect"
import { CalendarDate } from "../../../contract/rules/Dates.ts"
import { readElementText, type XmlElement } from "./XmlDocument.ts"

type Read<A> = Result.Result<A, string>

/**
 * Scale factor for numbers. They are stored as integers in units of 10⁻⁸, because forms may report fractions of a
 * share.
 */
const scale = 100_000_000n

/** The number that represents one share: share counts are stored in units of 10⁻⁸ shares. */
export const unitsPerShare = scale

/** The number that represents one percent in the results of `readPercentageElement`, in units of 10⁻⁸ percent. */
export const unitsPerPercent = scale

/** Matches a number without a minus sign, with up to 16 digits before and 8 after the decimal point. */
const decimalPattern = /^\+?(\d{0,16})(?:\.(\d{0,8}))?$/

/**
 * Returns a function that reads an element's value, or null if the element has no text. It fails if `parse` returns
 * undefined. `kind` (such as "date") and the element's name appear in the failure reason.
 */
const makeElementReader =
  <A>(kind: string, parse: (text: string) => A | undefined) =>
  (element: XmlElement | undefined, name = element?.name): Read<A | null> => {
    const text = readElementText(element)
    const value = text === null ? null : parse(text)
    return value === undefined ? Result.fail(`has no valid ${kind} in ${name}`) : Result.succeed(value)
  }

/** Reads a decimal number, in units of 10⁻⁸. */
export const readDecimalElement = makeElementReader("number", (text) => {
  const [matched, integer = "", fraction = ""] = decimalPattern.exec(text) ?? []
  return matched === undefined || integer + fraction === "" ? undefined : BigInt(`${integer}${fraction.padEnd(8, "0")}`)
})

/** Formats a number of shares (in units of 10⁻⁸) as whole shares. Fractions are dropped. */
export const formatWholeShares = (shares: bigint | null): Read<string | null> => {
  if (shares === null) return Result.succeed(null)
  const whole = shares / scale
  return whole > BigInt(Number.MAX_SAFE_INTEGER)
    ? Result.fail(`has more than ${Number.MAX_SAFE_INTEGER} shares`)
    : Result.succeed(String(whole))
}

/** Formats a number in units of 10⁻⁸ as a decimal number, such as 7.5 or 100. */
export const formatDecimal = (value: bigint) =>
  `${value / scale}.${String(value % scale).padStart(8, "0")}`.replace(/\.?0+$/, "")

/** Converts a number in units of 10⁻⁸ to hundredths, rounded half up. */
const roundToHundredths = (value: bigint) => (value + scale / 200n) * 100n / scale

/** Formats an amount in units of 10⁻⁸ dollars as dollars with cents, rounded half up. */
export const formatDollars = (amount: bigint | null) => {
  if (amount === null) return null
  const cents = roundToHundredths(amount)
  return `${cents / 100n}.${String(cents % 100n).padStart(2, "0")}`
}

/** Reads a percentage from 0 to 100, in units of 10⁻⁸ percent. */
export const readPercentageElement = (element: XmlElement | undefined): Read<bigint | null> =>
  Result.flatMap(
    readDecimalElement(element),
    (percentage) =>
      percentage !== null && percentage > 100n * scale
        ? Result.fail(`has more than 100 % in ${element?.name}`)
        : Result.succeed(percentage),
  )

/** Returns whether a percentage (in units of 10⁻⁸ percent) exceeds `limit` percent. */
export const isPercentageAbove = (percentage: bigint | null, limit: bigint) =>
  percentage !== null && percentage > limit * scale

/** Formats a percentage as a fraction with four decimals, rounded half up. For example, 9.95% becomes 0.0995. */
export const formatPercentageAsFraction = (percentage: bigint | null) => {
  if (percentage === null) return null
  const tenThousandths = roundToHundredths(percentage)
  return `${tenThousandths / 10_000n}.${String(tenThousandths % 10_000n).padStart(4, "0")}`
}

/** Converts a fraction such as 0.075 to a percentage, in units of 10⁻⁸ percent. */
export const readFraction = (fraction: string | null) =>
  fraction === null ? null : BigInt(Math.round(Number(fraction) * 100 * Number(scale)))

/** Reads a CIK and pads it to ten digits. */
export const readCikElement = makeElementReader(
  "CIK",
  (text) => /^\d{1,10}$/.test(text) ? text.padStart(10, "0") : undefined,
)

const isCalendarDate = Schema.is(CalendarDate)

/** Reads a date in the format `2026-02-19`, `2026-02-19-05:00` (the offset is ignored), or `02/19/2026`. */
export const readDateElement = makeElementReader("date", (text) => {
  const [, month, day, year] = /^(\d\d)\/(\d\d)\/(\d{4})$/.exec(text) ?? []
  const date = year === undefined ? text.replace(/(Z|[+-]\d\d:\d\d)$/, "") : `${year}-${month}-${day}`
  return isCalendarDate(date) ? date : undefined
})

/** Maximum length of a name or title. The SEC accepts 150 characters. Much longer text would not fit into an index. */
const maxTextLength = 250

/** Reads a name or a title, up to the maximum length. */
export const readNameElement = (element: XmlElement | undefined): Read<string | null> => {
  const text = readElementText(element)
  return text !== null && text.length > maxTextLength
    ? Result.fail(`has more than ${maxTextLength} characters in ${element?.name}`)
    : Result.succeed(text)
}

/** Returns whether a check box is checked (`1` or `true`). A missing element counts as unchecked. */
export const readCheckBoxElement = (element: XmlElement | undefined): boolean =>
  /^(1|true)$/i.test(readElementText(element) ?? "")
