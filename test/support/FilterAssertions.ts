/** Assertions for each kind of filter. The test inserts the rows and identifies each by a key. */
import { assert } from "@effect/vitest"
import { Effect } from "effect"
import { todayInNewYork } from "../../src/contract/rules/Dates.ts"
import type { ReceivedValidationError } from "./ListClients.ts"

type InvalidRequest<E, R> = (query: string) => Effect.Effect<ReceivedValidationError, E, R>

interface FilterQueries<E, R> {
  /** Returns the keys of the test's rows that the query finds, in list order. */
  readonly find: (query: string) => Effect.Effect<ReadonlyArray<unknown>, E, R>
  readonly requestInvalid: InvalidRequest<E, R>
}

/** Asserts that a ticker list without any valid symbol is rejected, instead of returning all rows (D5). */
export const assertInvalidSymbolsRefused = Effect.fnUntraced(function* <E, R>(requestInvalid: InvalidRequest<E, R>) {
  for (const sent of ["@@", "@@,a_b", "", ",", "%20", "toolongtoolong123"]) {
    const { field, message } = yield* requestInvalid(`ticker=${sent}`)
    assert.strictEqual(field, "ticker")
    assert.match(message, /^Invalid ticker\(s\): .*uppercase letters, numbers, dots, hyphens or carets/)
  }
})

/**
 * Asserts that the endpoint rejects parameters that it does not declare (D4). Each request starts with `requiredQuery`.
 */
export const assertUnknownParametersRefused = Effect.fnUntraced(
  function* <E, R>(requestInvalid: InvalidRequest<E, R>, names: ReadonlyArray<string>, requiredQuery = "") {
    for (const name of names) {
      const { field, reason } = yield* requestInvalid(`${requiredQuery}${name}=1`)
      assert.strictEqual(field, name)
      assert.include(reason, "is not a parameter of this endpoint")
    }
  },
)

/** Asserts that `true` and `false` each find the rows with that value, and that neither finds rows with null. */
export const assertBooleanFilter = Effect.fnUntraced(
  function* <E, R>({ find, requestInvalid }: FilterQueries<E, R>, name: string, found: {
    readonly yes: ReadonlyArray<unknown>
    readonly no: ReadonlyArray<unknown>
  }) {
    assert.deepStrictEqual(yield* find(`${name}=true`), found.yes)
    assert.deepStrictEqual(yield* find(`${name}=false`), found.no)
    for (const sent of ["", "1", "yes", "TRUE", "null"]) {
      assert.strictEqual((yield* requestInvalid(`${name}=${sent}`)).field, name)
    }
  },
)

/**
 * Asserts that each allowed value of the filter `name` finds its row, ignoring case (D33), that several values
 * separated by commas find the rows of all of them, and that other values are refused with a message that contains
 * `messagePart`. `rows` are pairs of a value and the key of the test's row that has it, in the order of the list.
 */
export const assertEnumFilter = Effect.fnUntraced(
  function* <E, R>(
    { find, requestInvalid }: FilterQueries<E, R>,
    name: string,
    messagePart: string,
    rows: ReadonlyArray<readonly [word: string, key: unknown]>,
  ) {
    for (const [word, key] of rows) {
      for (const sent of [word, word.toUpperCase(), `${word.slice(0, 1).toUpperCase()}${word.slice(1)}`]) {
        assert.deepStrictEqual(yield* find(`${name}=${sent}`), [key])
      }
    }
    for (const some of [rows, [...rows.slice(0, 1), ...rows.slice(-1)]]) {
      const sent = some.map(([word]) => word).toReversed().join(",%20")
      assert.deepStrictEqual(yield* find(`${name}=${sent}`), some.map(([, key]) => key))
    }
    const [[word] = [""]] = rows
    for (const sent of ["", "nothing", `${word},`, `${word},nothing`, word.slice(0, -1)]) {
      const { field, message } = yield* requestInvalid(`${name}=${sent}`)
      assert.strictEqual(field, name)
      assert.include(message, messagePart)
    }
  },
)

/**
 * Asserts that the filters `min_` and `max_` of a column include their bounds, compare decimals exactly, and never
 * match null (D9). `values` are the column's different values in ascending order, and `keys` the keys of their rows in
 * the same order.
 */
export const assertRangeFilter = Effect.fnUntraced(
  function* <E, R>({ find, requestInvalid }: FilterQueries<E, R>, name: string, ascending: {
    readonly values: ReadonlyArray<string>
    readonly keys: ReadonlyArray<unknown>
  }) {
    const { keys, values } = ascending
    for (const [index, value] of values.entries()) {
      assert.deepStrictEqual(yield* find(`min_${name}=${value}`), keys.slice(index))
      assert.deepStrictEqual(yield* find(`max_${name}=${value}`), keys.slice(0, index + 1))
      assert.deepStrictEqual(yield* find(`min_${name}=${value}&max_${name}=${value}`), keys.slice(index, index + 1))
    }
    const [least, most] = [values[0] ?? "", values.at(-1) ?? ""]
    assert.deepStrictEqual(yield* find(`min_${name}=${least}&max_${name}=${most}`), keys)
    assert.deepStrictEqual(yield* find(`min_${name}=-1e300`), keys)
    assert.deepStrictEqual(yield* find(`max_${name}=1e300`), keys)
    assert.deepStrictEqual(yield* find(`min_${name}=1e300`), [])
    assert.deepStrictEqual(yield* find(`max_${name}=-1e300`), [])
    for (const [min, max] of [[most, least], ["2", "1"], ["1", "0.9999"]]) {
      const { field, message } = yield* requestInvalid(`min_${name}=${min}&max_${name}=${max}`)
      assert.strictEqual(field, `min_${name}`)
      assert.strictEqual(message, `min_${name} must not be greater than max_${name}`)
    }
    for (const bound of [`min_${name}`, `max_${name}`]) {
      for (const sent of ["", "x", "NaN", "Infinity", "1,5"]) {
        assert.strictEqual((yield* requestInvalid(`${bound}=${sent}`)).field, bound)
      }
    }
  },
)

/** The dates that the date assertions expect. The test inserts one row per date, and one row without a date. */
export const sampleDays: ReadonlyArray<string> = ["2025-04-10", "2025-04-09", "2025-04-08", "2025-04-07"]

/**
 * Asserts that the filters `_from` and `_to` of a date column include the given day and never match null (D7). The test
 * must have inserted a row for each of `sampleDays`. `find` returns the days of the rows, latest first.
 */
export const assertDayRangeFilter = Effect.fnUntraced(
  function* <E, R>({ find, requestInvalid }: FilterQueries<E, R>, name: string) {
    assert.deepStrictEqual(yield* find(`${name}_from=2025-04-09`), sampleDays.slice(0, 2))
    assert.deepStrictEqual(yield* find(`${name}_to=2025-04-08`), sampleDays.slice(2))
    assert.deepStrictEqual(yield* find(`${name}_from=2025-04-08&${name}_to=2025-04-09`), sampleDays.slice(1, 3))
    assert.deepStrictEqual(yield* find(`${name}_from=2025-04-08&${name}_to=2025-04-08`), ["2025-04-08"])
    assert.deepStrictEqual(yield* find(`${name}_from=2025-04-11`), [])
    assert.deepStrictEqual(yield* find(`${name}_to=2025-04-06`), [])
    const { field, message } = yield* requestInvalid(`${name}_from=2025-04-02&${name}_to=2025-04-01`)
    assert.strictEqual(field, `${name}_from`)
    assert.strictEqual(message, `${name}_from must not be greater than ${name}_to`)
    for (const parameter of [`${name}_from`, `${name}_to`]) {
      for (const sent of ["2025-02-29", "20250101", "x", ""]) {
        const { field, reason } = yield* requestInvalid(`${parameter}=${sent}`)
        assert.strictEqual(field, parameter)
        assert.include(reason, "YYYY-MM-DD")
      }
    }
  },
)

/**
 * Asserts that each of the date `parameters` accepts today's date in New York and rejects later dates (§7.2, D7). Each
 * request starts with `requiredQuery`.
 */
export const assertFutureDaysRefused = Effect.fnUntraced(
  function* <A, E, R>(
    { requestRows, requestInvalid }: {
      readonly requestRows: (query: string) => Effect.Effect<A, E, R>
      readonly requestInvalid: InvalidRequest<E, R>
    },
    parameters: ReadonlyArray<string>,
    requiredQuery = "",
  ) {
    const today = yield* todayInNewYork
    for (const parameter of parameters) {
      yield* requestRows(`${requiredQuery}${parameter}=${today}`)
      for (const day of ["2199-01-01", "9999-12-31"]) {
        const { field, message } = yield* requestInvalid(`${requiredQuery}${parameter}=${day}`)
        assert.strictEqual(field, parameter)
        assert.match(message, /must be in the past/)
      }
    }
  },
)

/**
 * Asserts that `date` finds a single day and cannot be combined with `date_from` or `date_to`, and that all three
 * parameters reject future dates (D7).
 */
export const assertDateFilters = Effect.fnUntraced(function* <E, R>({ find, requestInvalid }: FilterQueries<E, R>) {
  assert.deepStrictEqual(yield* find("date=2025-04-08"), ["2025-04-08"])
  assert.deepStrictEqual(yield* find("date=2025-04-06"), [])
  yield* assertDayRangeFilter({ find, requestInvalid }, "date")
  for (const range of ["date_from=2025-01-01", "date_to=2025-01-02", "date_from=2025-01-01&date_to=2025-01-02"]) {
    const { field, message } = yield* requestInvalid(`date=2025-01-01&${range}`)
    assert.strictEqual(field, "date")
    assert.include(message, "date_from")
  }
  yield* assertFutureDaysRefused({ requestRows: find, requestInvalid }, ["date", "date_from", "date_to"])
  const today = yield* todayInNewYork
  assert.deepStrictEqual(yield* find(`date=${today}`), [])
  assert.deepStrictEqual(yield* find(`date_from=${today}`), [])
  assert.deepStrictEqual(yield* find(`date_to=${today}`), sampleDays)
})

/** Asserts that a date range may be in the future (§7.2). The test's row has the date 2199-01-01. */
export const assertFutureDaysFound = Effect.fnUntraced(
  function* <E, R>({ find, requestInvalid }: FilterQueries<E, R>, name: string, key: unknown) {
    assert.deepStrictEqual(yield* find(`${name}_from=2198-12-31&${name}_to=9999-12-31`), [key])
    assert.deepStrictEqual(yield* find(`${name}_from=2199-01-01`), [key])
    assert.deepStrictEqual(yield* find(`${name}_from=2199-01-02`), [])
    assert.deepStrictEqual(yield* find(`${name}_to=2198-12-31`), [])
    assert.strictEqual((yield* requestInvalid(`${name}_from=2199-01-02&${name}_to=2199-01-01`)).field, `${name}_from`)
  },
)

/** The texts that `assertContainsFilter` searches. The test inserts one row per text, and one row without a text. */
export const sampleTexts = ["H.C. Wainwright", "100% Bank_of 'A' \\ B", "100x Banknof", "ÜBER Capital"] as const

/**
 * Asserts that part of a text finds the text, ignoring case, and that the part must have 3 to 100 characters (§4). The
 * test must have inserted a row for each of `sampleTexts`, and `find` returns the texts that contain a part. Characters
 * that are wildcards in SQL, such as `%`, must find only themselves.
 */
export const assertContainsFilter = Effect.fnUntraced(
  function* <E, R>({ find, requestInvalid }: FilterQueries<E, R>, name: string) {
    const parts = [
      ["wainWRIGHT", sampleTexts[0]],
      ["H.C", sampleTexts[0]],
      ["100% bank_of", sampleTexts[1]],
      ["k_o", sampleTexts[1]],
      ["'a' \\ b", sampleTexts[1]],
      ["über", sampleTexts[3]],
    ] as const
    for (const [part, text] of parts) assert.deepStrictEqual(yield* find(part), [text])
    for (const miss of ["%%%", "___", "W%t", "H_C", "\\\\\\", `"""`, "wainwrights"]) {
      assert.deepStrictEqual(yield* find(miss), [], miss)
    }
    yield* assertInvalidTextsRefused(requestInvalid, name)
  },
)

/** Asserts that search texts are rejected if they are too short, too long, or contain NUL. */
export const assertInvalidTextsRefused = Effect.fnUntraced(
  function* <E, R>(requestInvalid: InvalidRequest<E, R>, name: string, requiredQuery = "") {
    for (const sent of ["", "ab", "%20%20a", "%20%20%20", "a%20", "a%00bc", "x".repeat(101)]) {
      const { field, message } = yield* requestInvalid(`${requiredQuery}${name}=${sent}`)
      assert.strictEqual(field, name)
      assert.include(message, "3 to 100 characters")
    }
  },
)
