/**
 * The file formats for price bars: two formats of this service and two formats that vendors use. Each format converts
 * the cells of a row to a bar. `docs/operations/ingest-prices.md` describes the formats.
 */
import { DateTime, Result } from "effect"
import { type CellProblem, formatRefusedValue } from "../load/FileReader.ts"
import type { Bounds } from "../load/ColumnBounds.ts"
import { completeOffset, newYorkTimeFormat, zonePattern } from "../../contract/rows/Timestamps.ts"
import { isInCalendar } from "../../contract/rules/Dates.ts"
import { removeExponent } from "../../contract/rules/ExponentNotation.ts"
import { type SymbolNotation, toSecSymbol } from "./SecSymbols.ts"

/** A row of a file before it is parsed. */
export interface BarRow {
  /** The line in a CSV file, or the row number in a Parquet file. */
  readonly line: number
  readonly cells: ReadonlyArray<string>
}

/** Consecutive rows of a file. The first row of the file is the header with the column names. */
export type BarRows = ReadonlyArray<BarRow>

/**
 * A price bar. Prices and volume are decimal numbers as text, so that no digits are lost. The prices of a bar with
 * volume 0 are not read and are 0, too.
 */
export interface Bar {
  /** The symbol in the SEC's spelling or, if `isStorable` is false, in that of the file. */
  readonly ticker: string
  /** Whether the symbol has a spelling that the tables accept. Some vendors' symbols have none, such as `LGLr`. */
  readonly isStorable: boolean
  /** The date in New York, as `YYYY-MM-DD`. */
  readonly day: string
  /**
   * The start of a minute bar, in minutes after midnight in New York. Null for a day bar. Also null for a bar at
   * midnight if the format does not distinguish minute bars from day bars (`hasAmbiguousMidnight`).
   */
  readonly minute: number | null
  readonly open: string
  readonly high: string
  readonly low: string
  readonly close: string
  /** The number of shares. */
  readonly volume: string
  /** The volume-weighted average price, or null if it is unknown. */
  readonly vwap: string | null
  /** The number of trades, or null if it is unknown. */
  readonly trades: string | null
}

/**
 * Returns the cell in a column of the row, without white space at its ends, or an empty string if the file has no such
 * column.
 */
type GetCell = (column: string) => string

/** The day and minute in New York at which a minute bar starts, or the date of a day bar. */
type BarStart = Pick<Bar, "day" | "minute">

/** A file format for price bars: its columns, and how their cells are converted to a bar. */
interface BarFormat {
  readonly name: string
  /** The columns that identify the format. */
  readonly signature: ReadonlyArray<string>
  readonly symbolColumn: string
  readonly symbolNotation: SymbolNotation
  readonly timeColumn: string
  /** The required columns, including `symbolColumn` and `timeColumn`. */
  readonly columns: ReadonlyArray<string>
  readonly optionalColumns: ReadonlyArray<string>
  /** Set if files with day bars and files with minute bars look the same, so that a bar at midnight may be either. */
  readonly hasAmbiguousMidnight?: true
  /** Parses the start of a bar from the cells of its row. Fails with the first invalid cell. */
  readonly parseStart: (cell: GetCell) => Result.Result<BarStart, CellProblem>
  /** Returns the price as a decimal number in USD, or undefined if the text is not a price. */
  readonly parsePrice: (text: string) => string | undefined
  /** Returns an addition to the reason why a price was rejected, for formats that are easily misunderstood. */
  readonly explainPrice?: (text: string, bounds: Bounds) => string
  /** The column with the number of trades. */
  readonly tradesColumn?: string
  /** A column whose value must be the same in all rows, and the reason. */
  readonly constantColumn?: { readonly column: string; readonly reason: string }
}

/** Creates a problem for a cell. The reason consists of the violated rule and the value. */
const makeProblem = (column: string, rule: string, value: string): CellProblem => ({
  column,
  reason: `${rule}${formatRefusedValue(value)}`,
})

const fail = (column: string, rule: string, value: string) => Result.fail(makeProblem(column, rule, value))

// ----------------------------------------------------------------------------------------------------------------
// Times
// ----------------------------------------------------------------------------------------------------------------

const secondsPerHour = 3600

/**
 * Converts a number of hours since 1970 to a date and the number of minutes after midnight in New York. Formatting a
 * time is slow, so results are cached. Whole hours are sufficient, because New York's UTC offset is always a whole
 * number of hours.
 */
const readNewYorkHour = (() => {
  const cache = new Map<number, { readonly day: string; readonly minute: number }>()
  return (hour: number) => {
    const known = cache.get(hour)
    if (known !== undefined) return known
    const text = newYorkTimeFormat.format(DateTime.toUtc(DateTime.makeUnsafe(hour * secondsPerHour * 1000)))
    const found = { day: text.slice(0, 10), minute: Number(text.slice(11, 13)) * 60 }
    if (cache.size >= 100_000) cache.clear()
    cache.set(hour, found)
    return found
  }
})()

/** Converts seconds since 1970 to a date and minute in New York. */
const toNewYork = (seconds: number): BarStart => {
  const { day, minute } = readNewYorkHour(Math.floor(seconds / secondsPerHour))
  return { day, minute: minute + Math.floor((seconds % secondsPerHour) / 60) }
}

/** Matches nanoseconds since 1970. They have 18 or 19 digits, so numbers in other units do not match. */
const nanosecondPattern = /^(\d{9,10})(\d{9})$/

/** Matches an ISO 8601 time with whole seconds, without its zone. */
const clockPattern = /^(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d(?::\d\d)?)(?:\.0+)?$/

/**
 * Parses nanoseconds since 1970, or an ISO 8601 time with a zone. Returns seconds since 1970, or undefined if the text
 * is invalid.
 */
const parseInstant = (text: string) => {
  const [, whole, rest] = nanosecondPattern.exec(text) ?? []
  if (whole !== undefined) return rest === "000000000" ? Number(whole) : undefined
  const [zone] = zonePattern.exec(text) ?? []
  const [, date, time] = zone === undefined ? [] : clockPattern.exec(text.slice(0, -zone.length)) ?? []
  if (zone === undefined || date === undefined || time === undefined) return undefined
  const milliseconds = Date.parse(`${date}T${time}${completeOffset(zone)}`)
  return Number.isNaN(milliseconds) || !isInCalendar(date) ? undefined : milliseconds / 1000
}

const instantRule = "must be the start of a minute: nanoseconds since 1970, or a time with its zone such as " +
  "2026-06-01T13:30:00Z"

/** Parses a time that must be the start of a minute. Returns seconds since 1970. */
const parseMinuteStart = (column: string, text: string): Result.Result<number, CellProblem> => {
  const seconds = parseInstant(text)
  return seconds === undefined || seconds % 60 !== 0 ? fail(column, instantRule, text) : Result.succeed(seconds)
}

/** Returns whether the text is an existing date in the form `YYYY-MM-DD`. */
const isDate = (text: string) => /^\d{4}-\d\d-\d\d$/.test(text) && isInCalendar(text)

// ----------------------------------------------------------------------------------------------------------------
// Prices
// ----------------------------------------------------------------------------------------------------------------

/**
 * Matches a decimal number without an exponent. Every floating-point number has a shortest form with at most 324
 * decimal places.
 */
const decimalPattern = /^\d{1,12}(?:\.\d{1,324})?$/

/**
 * Converts a nonnegative number to a decimal number without an exponent. Returns undefined if the text is not such a
 * number.
 */
const parseDecimal = (text: string) => {
  const decimal = removeExponent(text)
  return decimalPattern.test(decimal) ? decimal : undefined
}

/** The value that Databento writes for an unknown price. */
const unknownDatabentoPrice = "9223372036854775807"

/**
 * Parses a Databento price. A number with a decimal point ("pretty-printed") is in dollars. A number without one is in
 * billionths of a dollar.
 */
const parseDatabentoPrice = (text: string) => {
  if (text.includes(".")) return parseDecimal(text)
  if (!/^\d{1,19}$/.test(text)) return undefined
  // The last nine digits are the decimal places. Padding adds zeros, so that there is always a digit before them.
  const digits = text.padStart(10, "0")
  return `${digits.slice(0, -9)}.${digits.slice(-9)}`
}

/**
 * Rounds a decimal number half up to ten-thousandths, as PostgreSQL does when it stores a price. Returns the number of
 * ten-thousandths.
 */
const toTicks = (text: string) => {
  const [whole = "", decimals = ""] = text.split(".")
  return BigInt(whole + decimals.slice(0, 4).padEnd(4, "0")) + (decimals.charAt(4) >= "5" ? 1n : 0n)
}

/**
 * Returns whether one decimal number is less than another after rounding. Rounding never reverses the order, so most
 * comparisons need no rounding.
 */
const isBelow = (one: string, other: string) => Number(one) < Number(other) && toTicks(one) < toTicks(other)

const isOutside = (text: string, { greatest, least }: Bounds) =>
  Number(text) < Number(least) || Number(text) > Number(greatest)

// ----------------------------------------------------------------------------------------------------------------
// Formats
// ----------------------------------------------------------------------------------------------------------------

const prices = ["open", "high", "low", "close"] as const

/** Returns whether a column with this name contains prices (open, high, low or close) in any format. */
export const isPriceColumn = (name: string) => prices.some((column) => column === name)

/** The properties that this service's formats have in common. */
const ownFormat = {
  symbolColumn: "ticker",
  symbolNotation: "consolidated tape",
  optionalColumns: ["vwap", "trades"],
  parsePrice: parseDecimal,
  tradesColumn: "trades",
} as const

const formats: ReadonlyArray<BarFormat> = [
  {
    name: "Massive (Polygon) aggregates",
    signature: ["ticker", "window_start"],
    symbolColumn: "ticker",
    symbolNotation: "consolidated tape",
    timeColumn: "window_start",
    columns: ["ticker", "window_start", ...prices, "volume"],
    optionalColumns: ["transactions"],
    hasAmbiguousMidnight: true,
    parseStart: (cell) =>
      Result.map(parseMinuteStart("window_start", cell("window_start")), (seconds) => {
        const start = toNewYork(seconds)
        // A day bar starts at midnight. Whether this is a day bar depends on the other bars in the file.
        return start.minute === 0 ? { ...start, minute: null } : start
      }),
    parsePrice: parseDecimal,
    tradesColumn: "transactions",
  },
  {
    name: "Databento OHLCV",
    signature: ["ts_event", "rtype"],
    symbolColumn: "symbol",
    symbolNotation: "Nasdaq",
    timeColumn: "ts_event",
    columns: ["ts_event", "rtype", "publisher_id", ...prices, "volume", "symbol"],
    optionalColumns: ["instrument_id"],
    parseStart: (cell) => {
      const rtype = cell("rtype")
      if (rtype !== "33" && rtype !== "35") {
        return fail("rtype", "must be 33 (ohlcv-1m) or 35 (ohlcv-1d)", rtype)
      }
      return Result.flatMap(parseMinuteStart("ts_event", cell("ts_event")), (seconds) => {
        if (rtype === "33") return Result.succeed(toNewYork(seconds))
        return seconds % 86_400 === 0
          ? Result.succeed({ day: new Date(seconds * 1000).toISOString().slice(0, 10), minute: null })
          : fail("ts_event", "must be midnight UTC in a day bar", cell("ts_event"))
      })
    },
    parsePrice: parseDatabentoPrice,
    explainPrice: (text, bounds) => {
      if (text === unknownDatabentoPrice) return ", which is how Databento writes an unknown price; leave the row out"
      if (!/^\d+$/.test(text)) return ""
      const hint = isOutside(text, bounds) ? "" : `; write dollars with one, like ${text}.00`
      return `, which means billionths of a dollar without a decimal point${hint}`
    },
    constantColumn: {
      column: "publisher_id",
      reason:
        "must be the same in all rows, because the bars of several venues cannot be combined; ask Databento for " +
        "a consolidated dataset, or ingest one venue",
    },
  },
  {
    name: "minute bars",
    signature: ["ticker", "time"],
    timeColumn: "time",
    columns: ["ticker", "time", ...prices, "volume"],
    ...ownFormat,
    parseStart: (cell) => Result.map(parseMinuteStart("time", cell("time")), toNewYork),
  },
  {
    name: "day bars",
    signature: ["ticker", "date"],
    timeColumn: "date",
    columns: ["ticker", "date", ...prices, "volume"],
    ...ownFormat,
    parseStart: (cell) =>
      isDate(cell("date"))
        ? Result.succeed({ day: cell("date"), minute: null })
        : fail("date", "must be a date like 2026-06-01", cell("date")),
  },
]

const describeFormats = () =>
  formats.map(({ columns, name, optionalColumns }) =>
    `  ${name}: ${columns.join(",")} (optional: ${optionalColumns.join(",")})`
  ).join("\n")

/**
 * Determines the format of a file of bars from its column names (`names`, the file's header): the first format whose
 * signature, the columns that tell it from the others, they contain. Fails with the problems in the header: no known
 * format, missing columns, or repeated names. Several columns may have no name (""), because they are not read.
 */
export const findBarFormat = (names: ReadonlyArray<string>): Result.Result<BarFormat, ReadonlyArray<CellProblem>> => {
  const format = formats.find(({ signature }) => signature.every((column) => names.includes(column)))
  if (format === undefined) {
    return Result.fail([{
      column: "the header",
      reason: `has the columns ${names.join(",").slice(0, 200)}, but must have those of one of these formats, in ` +
        `lower case:\n${describeFormats()}`,
    }])
  }
  const missing = format.columns.filter((column) => !names.includes(column))
  const repeated = names.filter((name, index) => name !== "" && names.indexOf(name) < index)
  return missing.length + repeated.length === 0 ? Result.succeed(format) : Result.fail([
    ...missing.map((column) => ({ column, reason: `is missing; ${format.name} have it` })),
    ...repeated.map((column) => ({ column, reason: "is named twice in the header" })),
  ])
}

/** Returns whether the format uses a column with this name. */
const isUsed = ({ columns, optionalColumns }: BarFormat, name: string) =>
  columns.includes(name) || optionalColumns.includes(name)

/** Returns the columns of the file that the format does not use. */
export const listIgnoredColumns = (format: BarFormat, names: ReadonlyArray<string>) =>
  names.filter((name) => !isUsed(format, name))

/** Returns the columns of the file that its format uses, or an empty list if the format is unknown. */
export const listUsedColumns = (names: ReadonlyArray<string>): ReadonlyArray<string> =>
  Result.match(findBarFormat(names), {
    onSuccess: (format) => names.filter((name) => isUsed(format, name)),
    onFailure: () => [],
  })

/** Bounds for the values of a bar. They are the same as the bounds in the tables (D42, plausible values). */
export interface BarBounds {
  readonly price: Bounds
  readonly day: Bounds
  /** Tomorrow's date in New York, as `YYYY-MM-DD`. Later bars are rejected. */
  readonly tomorrow: string
}

const formatPriceRule = ({ greatest, least }: Bounds) => `must be a price from ${least} to ${greatest} USD`

/**
 * Parses the open, high, low and close of a bar, and checks that each is within `bounds`, that none is above the high,
 * and that none is below the low. Fails with the first problem.
 */
const parseOhlc = ({ explainPrice, parsePrice }: BarFormat, cell: GetCell, bounds: Bounds) => {
  const values = { open: "", high: "", low: "", close: "" }
  for (const column of prices) {
    const text = cell(column)
    const price = parsePrice(text)
    if (price === undefined || isOutside(price, bounds)) {
      const { reason } = makeProblem(column, formatPriceRule(bounds), text)
      return Result.fail<CellProblem>({ column, reason: `${reason}${explainPrice?.(text, bounds) ?? ""}` })
    }
    values[column] = price
  }
  const { close, high, low, open } = values
  if ([open, close, low].some((price) => isBelow(high, price))) {
    return fail("high", "must not be below open, close or low", cell("high"))
  }
  if ([open, close].some((price) => isBelow(price, low))) {
    return fail("low", "must not be above open or close", cell("low"))
  }
  return Result.succeed(values)
}

/**
 * The maximum volume of a minute bar and of a day bar, in shares, and the maximum value of a minute bar, in USD. With
 * these limits, totals fit their columns.
 */
const [maxMinuteVolume, maxDayVolume, maxMinuteValue] = [1e9, 1e11, 1e15]

/**
 * Parses the volume of a bar. In a minute bar, the volume times `highest`, the highest price of the bar, is limited
 * too, so that the value traded in a day fits its column.
 */
const parseVolume = (cell: GetCell, isDay: boolean, highest: number): Result.Result<string, CellProblem> => {
  const text = cell("volume")
  const [volume, max] = [parseDecimal(text), isDay ? maxDayVolume : maxMinuteVolume]
  return volume === undefined || Number(volume) > max || (!isDay && Number(volume) * highest > maxMinuteValue)
    ? fail("volume", `must be a number of shares, at most ${max}`, text)
    : Result.succeed(volume)
}

/**
 * The values of a row without volume. Such a row is no bar, so its prices are not read: vendors leave them empty or
 * write 0 or `nan`.
 */
const noTrades = { open: "0", high: "0", low: "0", close: "0", volume: "0", vwap: null, trades: null } as const

/** Returns whether the text of a volume is zero, such as `0` or `0.0`. */
const isZero = (text: string) => Number(parseDecimal(text)) === 0

/**
 * Parses a VWAP. It may be outside the range from low to high, because odd-lot trades affect the VWAP but not the high
 * and low. 0 means unknown.
 */
const parseVwap = (text: string, bounds: Bounds) => {
  if (text === "") return Result.succeed(null)
  const price = parseDecimal(text)
  if (price !== undefined && Number(price) === 0) return Result.succeed(null)
  return price === undefined || isOutside(price, bounds)
    ? fail("vwap", `${formatPriceRule(bounds)}, or 0 if it is unknown`, text)
    : Result.succeed(price)
}

/**
 * Parses a number of trades. The form `100.0` is accepted, because pandas writes whole numbers that way in a column
 * with empty cells (D43).
 */
const parseTrades = (column: string, text: string) => {
  if (text === "") return Result.succeed(null)
  const [, count] = /^(\d{1,12})(?:\.0+)?$/.exec(removeExponent(text)) ?? []
  return count === undefined ? fail(column, "must be a whole number", text) : Result.succeed(count)
}

/**
 * Returns a function that parses the cells of one row to a bar, or fails with the row's first invalid cell. The columns
 * of the file, in file order, have the names `names`. A parser must be used for one file only, because it requires some
 * columns to have the same value in all rows.
 */
export const makeBarParser = (format: BarFormat, names: ReadonlyArray<string>, { day, price, tomorrow }: BarBounds) => {
  const positions = new Map(names.map((name, index) => [name, index]))
  const { constantColumn, symbolColumn, symbolNotation, timeColumn, tradesColumn = "" } = format
  /** The value of `constantColumn` in the first row. */
  let constant: string | undefined

  return (cells: ReadonlyArray<string>): Result.Result<Bar, CellProblem> => {
    // No row has a cell at position -1, so a column missing from the file yields an empty string.
    const cell: GetCell = (column) => (cells[positions.get(column) ?? -1] ?? "").trim()
    const symbol = cell(symbolColumn)
    if (symbol === "") return fail(symbolColumn, "must not be empty", "")
    const spelling = toSecSymbol(symbol, symbolNotation)
    const security = { ticker: spelling ?? symbol, isStorable: spelling !== undefined }
    if (constantColumn !== undefined) {
      const value = cell(constantColumn.column)
      constant ??= value
      if (value !== constant) return fail(constantColumn.column, constantColumn.reason, value)
    }
    return Result.gen(function* () {
      const start = yield* format.parseStart(cell)
      if (start.day > tomorrow) {
        const reason = `must not be after tomorrow, ${tomorrow}, but is on ${start.day}`
        return yield* Result.fail({ column: timeColumn, reason })
      }
      if (start.day < day.least) {
        const reason = `must not be before ${day.least}, but is on ${start.day}`
        return yield* Result.fail({ column: timeColumn, reason })
      }
      if (isZero(cell("volume"))) return { ...security, ...start, ...noTrades }
      const ohlc = yield* parseOhlc(format, cell, price)
      const vwap = yield* parseVwap(cell("vwap"), price)
      // An unknown VWAP is null, which counts as 0 here.
      const highest = Math.max(Number(ohlc.high), Number(vwap))
      const volume = yield* parseVolume(cell, start.minute === null, highest)
      const trades = yield* parseTrades(tradesColumn, cell(tradesColumn))
      return { ...security, ...start, ...ohlc, volume, vwap, trades }
    })
  }
}

/**
 * Matches the symbols that the exchanges use to test their systems. Vendors' files contain them with arbitrary prices.
 * IBO and ZZZ were test symbols, too, but real securities have had them since, so they are not listed.
 */
const testSymbol = new RegExp(
  "^(?:[A-Z]*TEST(?:-[A-Z]+)?|Z[A-Z]ZZT|[A-Z]{2}ZST|ZVZZC(?:NX)?|ZXYZ-A|" +
    "ZBZX|ZEXIT|ZIEXT|ZXIET|ZTST|ZVV|ZZK|ZZV|CBO|CBX|IGZ)$",
)

/** Returns whether the exchanges use the symbol to test their systems. */
export const isTestSymbol = (ticker: string) => testSymbol.test(ticker)

/**
 * Returns whether the bar is a day bar or starts within the day's three sessions, which together last from 04:00 to
 * 20:00 in New York.
 */
export const isInSession = ({ minute }: Bar) => minute === null || (minute >= 4 * 60 && minute < 20 * 60)
