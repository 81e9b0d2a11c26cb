/** Tests how rows are read from CSV and NDJSON files, compressed or not (D31). */
import { NodeServices } from "@effect/platform-node"
import { assert, layer } from "@effect/vitest"
import { Context, Effect, FileSystem, Layer, Schema, Stream } from "effect"
import { gzipSync } from "node:zlib"
import { type FileReaderOptions, type ParsedFileRow, readFileRows } from "../../../src/ingest/load/FileReader.ts"
import { removeFormulaApostrophe } from "../../../src/query/rows/CsvCells.ts"

/** The path of the folder that contains the test files. */
class Folder extends Context.Service<Folder, string>()("test/ingest/load/Folder") {
  static readonly layer = Layer.effect(
    Folder,
    Effect.flatMap(FileSystem.FileSystem, (fs) => fs.makeTempDirectoryScoped({ prefix: "tickerline-rows-" })),
  ).pipe(Layer.provideMerge(NodeServices.layer))
}

/**
 * Writes a file with the given name and content, and reads its rows. Cells in the columns `lists` are parsed as lists.
 */
const readRows = Effect.fnUntraced(
  function* (
    name: string,
    content: string | Uint8Array,
    lists: ReadonlyArray<string> = [],
    options: FileReaderOptions = {},
  ) {
    const fs = yield* FileSystem.FileSystem
    const path = `${yield* Folder}/${name}`
    yield* fs.writeFile(path, typeof content === "string" ? new TextEncoder().encode(content) : content)
    return yield* Stream.runCollect(readFileRows(path, new Set(lists), options))
  },
)

/** The parts from which cells are generated. Most of them are hard for a CSV reader to parse. */
const awkwardParts = [
  '"',
  ",",
  "\n",
  "\r\n",
  '""',
  " ",
  "\t",
  "é",
  "€",
  "😀",
  "\uFEFF",
  "\\",
  "'",
  ";",
  "a",
  "0",
  "",
  "\u2028",
]

/** A generated cell, as indexes into `awkwardParts`. */
const Cell = Schema.Array(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: awkwardParts.length - 1 })))
const makeCell = (parts: ReadonlyArray<number>) => parts.map((part) => awkwardParts[part] ?? "").join("")

/** Options for writing the same table in different ways. */
const WritingStyle = Schema.Struct({
  crlf: Schema.Boolean,
  /** Whether the file starts with a byte order mark. */
  mark: Schema.Boolean,
  gzip: Schema.Boolean,
  quoteAll: Schema.Boolean,
  /** Whether the last line ends with a line break. */
  lastBreak: Schema.Boolean,
  /** The number of empty lines before each row. */
  emptyLines: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 3 })),
})
const CsvTable = Schema.Array(Schema.Tuple([Cell, Cell, Cell]))

const columns = ["a", "b b", "c"] as const

/** Returns the rows that the reader is expected to produce. */
const toRows = (
  lines: ReadonlyArray<{ readonly line: number; readonly cells: ReadonlyArray<string> }>,
): ReadonlyArray<ParsedFileRow> =>
  lines.map(({ cells, line }) => ({
    line,
    cells: Object.fromEntries(columns.map((column, at) => [column, cells[at] === "" ? null : cells[at]])),
  }))

/**
 * Writes CSV according to RFC 4180, without using any code of the reader. Also returns the line on which each row
 * starts.
 */
const writeCsv = (table: ReadonlyArray<ReadonlyArray<string>>, style: typeof WritingStyle.Type) => {
  const end = style.crlf ? "\r\n" : "\n"
  const cell = (text: string) =>
    style.quoteAll || /[",\r\n\uFEFF]/.test(text) ? `"${text.split('"').join('""')}"` : text
  let text = style.mark ? "\uFEFF" : ""
  const lines: Array<{ readonly line: number; readonly cells: ReadonlyArray<string> }> = []
  for (const [at, cells] of [columns, ...table].entries()) {
    text += end.repeat(style.emptyLines)
    if (at > 0) lines.push({ line: text.split("\n").length, cells })
    text += cells.map(cell).join(",") + end
  }
  return { text: style.lastBreak ? text : text.slice(0, -end.length), lines }
}

/**
 * Returns the row without the apostrophes that the service's exports put in front of text that looks like a formula.
 */
const removeApostrophes = (row: ParsedFileRow): ParsedFileRow => ({
  ...row,
  cells: Object.fromEntries(
    Object.entries(row.cells).map(([name, cell]) => [
      name,
      typeof cell === "string" ? removeFormulaApostrophe(cell) : cell,
    ]),
  ),
})

layer(Folder.layer)("The file reader", (it) => {
  it.effect.prop(
    "reads any valid CSV file, and reports the line of each row (D31)",
    { table: CsvTable, style: WritingStyle },
    Effect.fnUntraced(function* ({ style, table }) {
      const { lines, text } = writeCsv(table.map((row) => row.map(makeCell)), style)
      const [name, bytes] = style.gzip ? ["a.csv.gz", gzipSync(text)] : ["a.csv", text]
      assert.deepStrictEqual(yield* readRows(name, bytes), toRows(lines))
      // The reader treats a file as an export of the service only if it has this header and a byte order mark.
      const isExportHeader = (names: ReadonlyArray<string>) => names.join() === columns.join()
      assert.deepStrictEqual(
        yield* readRows(name, bytes, [], { isExportHeader }),
        style.mark ? toRows(lines).map(removeApostrophes) : toRows(lines),
      )
    }),
  )

  it.effect.prop(
    "reads any NDJSON file, and keeps the digits of numbers (D31)",
    {
      objects: Schema.Array(Schema.Struct({
        text: Cell,
        words: Schema.NullOr(Schema.Array(Cell)),
        yes: Schema.Boolean,
        integer: Schema.BigInt,
        fraction: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 999_999 })),
        omitsColumn: Schema.Boolean,
      })),
      style: WritingStyle,
    },
    Effect.fnUntraced(function* ({ style, objects }) {
      const end = style.crlf ? "\r\n" : "\n"
      let text = style.mark ? "\uFEFF" : ""
      const rows: Array<ParsedFileRow> = []
      for (const { fraction, integer, omitsColumn, text: parts, words, yes } of objects) {
        text += `${style.quoteAll ? "  " : ""}${end}`.repeat(style.emptyLines)
        const number = `${integer}.${String(fraction).padStart(6, "0")}`
        const cells = {
          text: makeCell(parts),
          words: words?.map(makeCell) ?? null,
          ...(omitsColumn ? {} : { more: "x" }),
        }
        rows.push({
          line: text.split("\n").length,
          cells: { ...cells, yes: String(yes), number, integer: String(integer) },
        })
        text += `${JSON.stringify({ ...cells, yes }).slice(0, -1)},"number": ${number} ,"integer":${integer}}${end}`
      }
      const written = style.lastBreak ? text : text.trimEnd()
      const found = yield* readRows(style.gzip ? "a.jsonl.gz" : "a.ndjson", style.gzip ? gzipSync(written) : written, [
        "words",
      ])
      assert.deepStrictEqual(found, rows)
    }),
  )

  it.effect("decodes characters and rows that are split between chunks (D31)", () =>
    Effect.gen(function* () {
      // The table has multibyte characters and rows of different lengths, so some chunks end inside a character or a
      // row.
      const rowCount = 4_000
      const table = Array.from(
        { length: rowCount },
        (_, at) => ["é€😀".repeat(at % 23), `"${"ü,\n".repeat(at % 5)}`, String(at)],
      )
      const plain = { crlf: true, mark: true, gzip: false, quoteAll: false, lastBreak: true, emptyLines: 0 }
      const { lines, text } = writeCsv(table, plain)
      const severalChunks = 400_000
      assert.isAbove(Buffer.byteLength(text), severalChunks)
      assert.deepStrictEqual(yield* readRows("big.csv", text), toRows(lines))
      assert.deepStrictEqual(yield* readRows("big.csv.gz", gzipSync(text)), toRows(lines))
      const objects = table.map(([a, b, c]) => ({ a, b, c }))
      const found = yield* readRows("big.ndjson", objects.map((row) => `${JSON.stringify(row)}\r\n`).join(""))
      assert.deepStrictEqual(
        found.map(({ cells, line }) => ({ line, ...cells })),
        objects.map((row, at) => ({ line: at + 1, ...row })),
      )
    }))

  it.effect("refuses a gzip file whose name does not end in .gz, with advice (D31)", () =>
    Effect.gen(function* () {
      for (const name of ["compressed.csv", "compressed.ndjson"]) {
        const error = yield* Effect.flip(readRows(name, gzipSync("a,b\n1,2\n")))
        assert.match(
          error.message,
          new RegExp(`${name} is compressed with gzip, but .* Rename it to .*${name}\\.gz\\.$`),
        )
      }
    }))

  it.effect("reads every member of a gzip file (D31)", () =>
    Effect.gen(function* () {
      const found = yield* readRows("two.csv.gz", Buffer.concat([gzipSync("a,b\n1,2\n"), gzipSync("3,4\n")]))
      assert.deepStrictEqual(found, [{ line: 2, cells: { a: "1", b: "2" } }, { line: 3, cells: { a: "3", b: "4" } }])
    }))

  it.effect("trims header names, and reads lists as JSON (D31)", () =>
    Effect.gen(function* () {
      const found = yield* readRows("lists.csv", ' a , list\n1,"[""x"",""y, z""]"\n2,\n3,[]\n', ["list"])
      assert.deepStrictEqual(found, [
        { line: 2, cells: { a: "1", list: ["x", "y, z"] } },
        { line: 3, cells: { a: "2" } },
        { line: 4, cells: { a: "3", list: [] } },
      ])
    }))

  it.effect("reads an empty cell and \\N as null, and other texts if the options list them (D43)", () =>
    Effect.gen(function* () {
      const text = "a,list\n\\N,\\N\n,\nNULL,NULL\n"
      const [first, second, third] = yield* readRows("nulls.csv", text, ["list"])
      assert.deepStrictEqual([first?.cells, second?.cells], [{ a: "\\N" }, { a: null }])
      assert.include(third?.problem?.reason, "must be a JSON array")
      const withNull = yield* readRows("nulls.csv", text, ["list"], { nullTexts: new Set(["", "\\N", "NULL"]) })
      assert.deepStrictEqual(withNull.map(({ problem }) => problem), [undefined, undefined, undefined])
    }))

  it.effect.each([
    ['{"a":"1","b":"2","a":"3"}', "a"],
    ['{"a":"1","\\u0061":"3"}', "a"],
    ['{"x":"\\"a\\":","a":"1","owners":[{"n":"1"},{"n":"2","n":"3"}]}', "n"],
    ['{"a":null,"a":null}', "a"],
    ['{"__proto__":"1","__proto__":"2"}', "__proto__"],
  ])("refuses the object %s, in which a name occurs twice (D43)", ([line = "", name]) =>
    Effect.gen(function* () {
      const [row, ...others] = yield* readRows("twice.ndjson", `${line}\n{"a":"1"}\n`)
      assert.deepStrictEqual(row?.problem, {
        column: name,
        reason: "occurs twice in one object; keep one of the values",
      })
      assert.deepStrictEqual(others, [{ line: 2, cells: { a: "1" } }])
    }))

  it.effect("accepts a name that occurs in several objects, or inside text (D43)", () =>
    Effect.gen(function* () {
      const text = JSON.stringify({ a: '"a":1, {"a":', b: "}", c: "\\" })
      const nested = JSON.stringify({ a: "1", owners: [{ n: "1" }, { n: "2" }] })
      const rows = yield* readRows("once.ndjson", `${text}\n${nested}\n`)
      assert.deepStrictEqual(rows.map(({ problem }) => problem), [undefined, undefined, undefined])
      assert.deepStrictEqual(rows[0]?.cells, JSON.parse(text))
    }))

  it.effect("reports each column without a name in the header, such as the index that pandas writes (D31)", () =>
    Effect.gen(function* () {
      const found = yield* readRows("index.csv", ",a,\n0,1,\n")
      assert.deepStrictEqual(
        found.map(({ line, problem }) => `${line} ${problem?.column} ${problem?.reason}`),
        [1, 3].map((column) =>
          `1 the header has no name for column ${column}; name it, or write the file without it ` +
          "(in pandas: index=False)"
        ),
      )
    }))

  it.effect("reports a row with more or fewer cells than the header, and reads the rows after it (D31)", () =>
    Effect.gen(function* () {
      const found = yield* readRows("odd.csv", "a,b\n1\n1,2,3\n1,2\n")
      assert.deepStrictEqual(found.map(({ line, problem }) => [line, problem?.reason ?? "good"]), [
        [2, "has 1 cell; the header has 2"],
        [3, "has 3 cells; the header has 2"],
        [4, "good"],
      ])
    }))

  it.effect.each(
    [
      ["NDJSON line", "line.ndjson.gz", "{}\n", /line 2: the row has more than 16,777,216 characters\. Each line/],
      [
        "quoted CSV cell",
        "cell.csv.gz",
        `a,b\n1,"`,
        /line 2: the row has more than 16,777,216 characters\. A quotation mark/,
      ],
      ["CSV row", "row.csv.gz", "a,b\n", /line 2: the row has more than 16,777,216 characters/],
    ] as const,
  )(
    "refuses a compressed %s of any length before it is in memory (D31, SECURITY.md)",
    ([, name, start, reason]) =>
      Effect.gen(function* () {
        // All parts together exceed the maximum length of a JavaScript string.
        const [partCount, partSize, maxGrowth] = [9, 64 * 1024 * 1024, 300 * 1024 * 1024]
        const part = gzipSync("x".repeat(partSize))
        const bomb = Buffer.concat(Array.from({ length: partCount }, () => part))
        const before = process.memoryUsage().rss
        const error = yield* Effect.flip(readRows(name, Buffer.concat([gzipSync(start), bomb])))
        assert.match(error.message, reason)
        assert.isBelow(process.memoryUsage().rss - before, maxGrowth)
      }),
  )

  it.effect("refuses a header with more than a thousand columns, without comparing them (D31, SECURITY.md)", () =>
    Effect.gen(function* () {
      const columnCount = 5_000_000
      const found = yield* readRows("wide.csv", `${",".repeat(columnCount - 1)}\n1\n`)
      assert.deepStrictEqual(found.map(({ problem }) => problem?.reason), [
        `has ${columnCount} columns, more than 1000`,
      ])
    }))
})
