/** Tests that terminal output fits the terminal width and contains no control sequences. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Schema } from "effect"
import type { ProgressState } from "../../../../src/postgres/metrics/OperationProgress.ts"
import {
  addProgressSample,
  formatProgressLine,
  formatProgressParts,
  type ProgressSample,
} from "../../../../src/operate/cli/terminal/ProgressLine.ts"
import type { OutputCapabilities } from "../../../../src/operate/cli/terminal/OutputCapabilities.ts"
import { formatRowVertically, formatTextTable } from "../../../../src/operate/cli/terminal/TextTable.ts"
import {
  escapeTerminalLine,
  escapeTerminalLines,
  formatElapsedTime,
  getDisplayWidth,
  truncateToWidth,
} from "../../../../src/operate/cli/terminal/TerminalText.ts"
import { skipUnlessThorough } from "../../../support/Thoroughness.ts"

const integer = (minimum: number, maximum: number) => Schema.Int.check(Schema.isBetween({ minimum, maximum }))

/** Returns an output of the given width. An infinite width stands for a file. */
const makeOutput = (columns: number, more: Partial<OutputCapabilities> = {}): OutputCapabilities => ({
  isTerminal: Number.isFinite(columns),
  canRedraw: true,
  hasUnicode: true,
  hasColors: false,
  columns: () => columns,
  paint: (_, text) => text,
  ...more,
})

/** Characters that could alter what a terminal displays. */
const controlCharacter = /[\p{Cc}\p{Bidi_Control}\u2028\u2029]/u

describe("Output on a terminal", () => {
  it("says that a run took less than a second, not 0 seconds (operations/command-line)", () => {
    assert.deepStrictEqual([0, 0.499, 0.5, 65.4].map(formatElapsedTime), [
      "less than a second",
      "less than a second",
      "1s",
      "1m 5s",
    ])
  })

  it.prop("escapes all control characters and bidirectional marks (operations/command-line)", [
    Schema.String,
  ], ([text]) => {
    assert.notMatch(escapeTerminalLine(text), controlCharacter)
    assert.notMatch(escapeTerminalLines(text).replaceAll("\n", ""), controlCharacter)
  })

  it("shows escape sequences as text (operations/command-line)", () => {
    assert.strictEqual(
      escapeTerminalLine("a\u001b[31mb\u009b2J\u0007\u202ec\r\nd\te"),
      "a\\u001b[31mb\\u009b2J\\u0007\\u202ec\\r\\nd\\te",
    )
    assert.strictEqual(escapeTerminalLine("株式会社 é 👩‍👩‍👧"), "株式会社 é 👩‍👩‍👧")
  })

  it.prop(
    "truncates text to the given columns and keeps its start (operations/command-line)",
    [Schema.String, integer(0, 30)],
    ([text, columns]) => {
      const shown = truncateToWidth(escapeTerminalLine(text), columns, "…")
      assert.isAtMost(getDisplayWidth(shown), columns)
      assert.isTrue(escapeTerminalLine(text).startsWith(shown.replace(/…$/, "")))
    },
  )

  it("never splits a wide character (operations/command-line)", () => {
    assert.strictEqual(getDisplayWidth("株式"), 4)
    assert.strictEqual(truncateToWidth("株式会社", 5, "…"), "株式…")
    assert.strictEqual(truncateToWidth("株式会社", 4, "…"), "株…")
    assert.strictEqual(truncateToWidth("株式", 4, "…"), "株式")
    assert.strictEqual(truncateToWidth("👩‍👩‍👧x", 2, "…"), "…")
  })
})

/** Rows of cells. A null cell has no value. */
const Cells = Schema.Array(Schema.Array(Schema.NullOr(Schema.String)))

describe("A table", () => {
  it.prop("fits the terminal, and names hidden columns (operations/command-line)", [
    Cells,
    Schema.Array(Schema.Boolean),
    integer(12, 120),
  ], ([rows, kinds, width]) => {
    const columns = kinds.map((isNumber, index) => ({ name: `column_${index}`, isNumber }))
    const { hiddenColumns, lines } = formatTextTable({ columns, rows }, makeOutput(width))
    assert.strictEqual(lines.length, rows.length + 1)
    for (const line of lines) assert.isAtMost(getDisplayWidth(line), width)
    assert.deepStrictEqual(
      hiddenColumns,
      columns.slice(columns.length - hiddenColumns.length).map(({ name }) => name),
    )
    if (columns.length > 0) assert.isBelow(hiddenColumns.length, columns.length)
    for (const line of formatRowVertically({ columns, rows }, makeOutput(width))) {
      assert.isAtMost(getDisplayWidth(line), width)
    }
  })

  it.prop("shows every cell in full when written to a file (operations/command-line)", [Cells], ([rows]) => {
    const width = Math.max(0, ...rows.map((row) => row.length))
    const columns = Array.from({ length: width }, (_, index) => ({ name: `c${index}`, isNumber: false }))
    const { hiddenColumns, lines } = formatTextTable({ columns, rows }, makeOutput(Number.POSITIVE_INFINITY))
    assert.deepStrictEqual(hiddenColumns, [])
    for (const [index, row] of rows.entries()) {
      for (const cell of row) assert.include(`${lines[index + 1]}  `, escapeTerminalLine(cell ?? "").trimEnd())
    }
  })

  it.effect("formats 200,000 rows (operations/command-line)", () =>
    Effect.gen(function* () {
      yield* skipUnlessThorough
      // Uses empty cells, because measuring text would take most of the time.
      const rows = Array.from({ length: 200_000 }, () => [""])
      assert.strictEqual(formatTextTable({ columns: [{ name: "name" }], rows }, makeOutput(80)).lines.length, 200_001)
    }))

  it("marks a shortened cell with ~ on a terminal without Unicode (operations/command-line)", () => {
    const table = { columns: [{ name: "name" }], rows: [["abcdefghijklmnopqrstuvwxyz"]] }
    const ascii = makeOutput(12, { hasUnicode: false })
    assert.deepStrictEqual(formatTextTable(table, ascii).lines, ["name", "abcdefghijk~"])
    assert.deepStrictEqual(formatRowVertically(table, ascii), ["name  abcde~"])
    assert.deepStrictEqual(formatRowVertically(table, makeOutput(12)), ["name  abcde…"])
  })

  it("right-aligns numbers, shows null as a dash, and counts wide characters as two columns (operations/command-line)", () => {
    const columns = [{ name: "name", isNumber: false }, { name: "price", isNumber: true }]
    const rows = [["株式会社", "9.5"], ["abc", "1234.25"], [null, null]]
    assert.deepStrictEqual(formatTextTable({ columns, rows }, makeOutput(80)).lines, [
      "name        price",
      "株式会社      9.5",
      "abc       1234.25",
      "-               -",
    ])
    assert.deepStrictEqual(formatTextTable({ columns, rows }, makeOutput(Number.POSITIVE_INFINITY)).lines.at(-1), "")
  })
})

/** Returns the progress state of loading `news`. */
const makeProgress = (more: Partial<ProgressState>): ProgressState => ({
  label: "news",
  done: 0,
  total: 100,
  count: 0,
  unit: "rows",
  isHidden: false,
  ...more,
})

describe("The progress line", () => {
  it.prop("fits the width of every terminal (operations/command-line)", [
    Schema.String,
    integer(0, 2_000_000_000),
    Schema.NullOr(integer(0, 2_000_000_000)),
    integer(0, 2_000_000_000),
    integer(1, 200),
    Schema.Boolean,
  ], ([label, done, total, count, columns, unicode]) => {
    const now = makeProgress({ label, done, total: total ?? undefined, count })
    const samples = [{ at: 0, done: 0, count: 0 }, { at: 4_000, done, count }]
    const text = formatProgressLine(escapeTerminalLine(label), formatProgressParts(now, samples, 4_000), {
      columns,
      unicode,
    })
    assert.isAtMost(getDisplayWidth(text), columns)
    if (!unicode && /^[ -~]*$/.test(label)) assert.match(text, /^[ -~]*$/)
  })

  it("shows the rate of the last seconds, and the remaining time despite a pause (operations/command-line)", () => {
    const seen = Array.from({ length: 31 }, (_, second): ProgressSample => ({
      at: second * 1000,
      // One unit per second for twenty seconds, then ten units per second.
      done: second <= 20 ? second : 20 + (second - 20) * 10,
      count: second <= 20 ? second * 100 : 2_000 + (second - 20) * 1_000,
    }))
    const samples = seen.reduce<ReadonlyArray<ProgressSample>>(addProgressSample, [])
    const parts = formatProgressParts(makeProgress({ done: 120, total: 200, count: 12_000 }), samples, 30_000)
    assert.deepStrictEqual(parts, [" 60%", "0:20 left", "12,000 rows", "700 rows/s"])
    // A pause of 16 seconds, such as while a batch is written.
    const paused = addProgressSample(addProgressSample(samples, { at: 31_000, done: 120, count: 12_000 }), {
      at: 46_000,
      done: 120,
      count: 12_000,
    })
    const later = formatProgressParts(makeProgress({ done: 120, total: 200, count: 12_000 }), paused, 46_000)
    assert.deepStrictEqual(later, [" 60%", "0:31 left", "12,000 rows"])
    const old = Array.from({ length: 300 }, (_, second) => ({ at: second * 1000, done: second, count: second }))
    assert.isAtMost(old.reduce<ReadonlyArray<ProgressSample>>(addProgressSample, []).length, 122)
  })

  it("shows no percentage without a total, and resets the rate when a new step begins (operations/command-line)", () => {
    const text = formatProgressLine(
      "pipe",
      formatProgressParts(makeProgress({ total: undefined, count: 5 }), [], 65_000),
      {
        columns: 80,
        unicode: true,
      },
    )
    assert.strictEqual(text, "pipe  1:05 so far  5 rows")
    assert.deepStrictEqual(addProgressSample([{ at: 0, done: 90, count: 9 }], { at: 10, done: 1, count: 0 }), [
      { at: 10, done: 1, count: 0 },
    ])
  })
})
