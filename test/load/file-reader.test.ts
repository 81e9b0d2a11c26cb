import { NodeServices } from "@effect/platform-node"
import { assert, layer } from "@effect/vitest"
import { Context, Effect, FileSystem, Layer, Schema, Stream } from "effect"
import { gzipSync } from "node:zlib"
import type { ParsedRow } from "../../src/load/ParsedRow.ts"
import { readRows } from "../../src/load/FileReader.ts"

/** One folder for all the files. */
class Folder extends Context.Service<Folder, string>()("test/load/rows/Folder") {
  static readonly layer = Layer.effect(
    Folder,
    Effect.flatMap(FileSystem.FileSystem, (fs) => fs.makeTempDirectoryScoped({ prefix: "tickerline-rows-" })),
  ).pipe(Layer.provideMerge(NodeServices.layer))
}

const rowsOf = Effect.fnUntraced(
  function* (name: string, content: string | Uint8Array, lists: ReadonlyArray<string> = []) {
    const fs = yield* FileSystem.FileSystem
    const path = `${yield* Folder}/${name}`
    yield* fs.writeFile(path, typeof content === "string" ? new TextEncoder().encode(content) : content)
    return yield* Stream.runCollect(readRows(path, new Set(lists)))
  },
)

/** Cells as a file of UTF-8 can hold them; the awkward characters come up often. */
const awkward = [
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
const Cell = Schema.Array(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: awkward.length - 1 })))
const cellOf = (parts: ReadonlyArray<number>) => parts.map((part) => awkward[part] ?? "").join("")

/** How a writer may write the same table. */
const Manner = Schema.Struct({
  crlf: Schema.Boolean,
  mark: Schema.Boolean,
  gzip: Schema.Boolean,
  quoteAll: Schema.Boolean,
  lastBreak: Schema.Boolean,
  emptyLines: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 3 })),
})
const Table = Schema.Array(Schema.Tuple([Cell, Cell, Cell]))

const columns = ["a", "b b", "c"] as const

/** What the reader owes: the cells, and the line on which each row begins. */
const expected = (
  lines: ReadonlyArray<{ readonly line: number; readonly cells: ReadonlyArray<string> }>,
): ReadonlyArray<ParsedRow> =>
  lines.map(({ cells, line }) => ({
    line,
    cells: Object.fromEntries(columns.map((column, at) => [column, cells[at] === "" ? null : cells[at]])),
  }))

/** Knows nothing of the reader: RFC 4180 by hand. */
const write = (table: ReadonlyArray<ReadonlyArray<string>>, manner: typeof Manner.Type) => {
  const end = manner.crlf ? "\r\n" : "\n"
  const cell = (text: string) =>
    manner.quoteAll || /[",\r\n\uFEFF]/.test(text) ? `"${text.split('"').join('""')}"` : text
  let text = manner.mark ? "\uFEFF" : ""
  const lines: Array<{ readonly line: number; readonly cells: ReadonlyArray<string> }> = []
  for (const [at, cells] of [columns, ...table].entries()) {
    text += end.repeat(manner.emptyLines)
    if (at > 0) lines.push({ line: text.split("\n").length, cells })
    text += cells.map(cell).join(",") + end
  }
  return { text: manner.lastBreak ? text : text.slice(0, -end.length), lines }
}

layer(Folder.layer)("rows of a file", (it) => {
  it.effect.prop(
    "D31 any table that a CSV writer wrote reads back the same, with the line of each row",
    { table: Table, manner: Manner },
    Effect.fnUntraced(function* ({ manner, table }) {
      const { lines, text } = write(table.map((row) => row.map(cellOf)), manner)
      const rows = yield* rowsOf(manner.gzip ? "a.csv.gz" : "a.csv", manner.gzip ? gzipSync(text) : text)
      assert.deepStrictEqual(rows, expected(lines))
    }),
  )

  it.effect.prop(
    "D31 any objects written as NDJSON read back the same, numbers by their digits",
    {
      objects: Schema.Array(Schema.Struct({
        text: Cell,
        words: Schema.NullOr(Schema.Array(Cell)),
        yes: Schema.Boolean,
        whole: Schema.BigInt,
        fraction: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 999_999 })),
        left: Schema.Boolean,
      })),
      manner: Manner,
    },
    Effect.fnUntraced(function* ({ manner, objects }) {
      const end = manner.crlf ? "\r\n" : "\n"
      let text = manner.mark ? "\uFEFF" : ""
      const rows: Array<ParsedRow> = []
      for (const { fraction, left, text: parts, whole, words, yes } of objects) {
        text += `${manner.quoteAll ? "  " : ""}${end}`.repeat(manner.emptyLines)
        const number = `${whole}.${String(fraction).padStart(6, "0")}`
        const cells = { text: cellOf(parts), words: words?.map(cellOf) ?? null, ...(left ? {} : { more: "x" }) }
        rows.push({
          line: text.split("\n").length,
          cells: { ...cells, yes: String(yes), number, whole: String(whole) },
        })
        text += `${JSON.stringify({ ...cells, yes }).slice(0, -1)},"number": ${number} ,"whole":${whole}}${end}`
      }
      const written = manner.lastBreak ? text : text.trimEnd()
      const found = yield* rowsOf(manner.gzip ? "a.jsonl.gz" : "a.ndjson", manner.gzip ? gzipSync(written) : written, [
        "words",
      ])
      assert.deepStrictEqual(found, rows)
    }),
  )

  it.effect("D31 characters of several bytes and rows survive wherever the file is cut into pieces", () =>
    Effect.gen(function* () {
      // 7 bytes a character group and rows of changing length: pieces of any size end inside each of them sometime.
      const table = Array.from(
        { length: 4_000 },
        (_, at) => ["é€😀".repeat(at % 23), `"${"ü,\n".repeat(at % 5)}`, String(at)],
      )
      const plain = { crlf: true, mark: true, gzip: false, quoteAll: false, lastBreak: true, emptyLines: 0 }
      const { lines, text } = write(table, plain)
      assert.isAbove(Buffer.byteLength(text), 400_000)
      assert.deepStrictEqual(yield* rowsOf("big.csv", text), expected(lines))
      assert.deepStrictEqual(yield* rowsOf("big.csv.gz", gzipSync(text)), expected(lines))
      const objects = table.map(([a, b, c]) => ({ a, b, c }))
      const found = yield* rowsOf("big.ndjson", objects.map((row) => `${JSON.stringify(row)}\r\n`).join(""))
      assert.deepStrictEqual(
        found.map(({ cells, line }) => ({ line, ...cells })),
        objects.map((row, at) => ({ line: at + 1, ...row })),
      )
    }))

  it.effect("D31 a gzip made of several, as tools append them, is read to its end", () =>
    Effect.gen(function* () {
      const found = yield* rowsOf("two.csv.gz", Buffer.concat([gzipSync("a,b\n1,2\n"), gzipSync("3,4\n")]))
      assert.deepStrictEqual(found, [{ line: 2, cells: { a: "1", b: "2" } }, { line: 3, cells: { a: "3", b: "4" } }])
    }))

  it.effect("D31 header names may have white space around them; a list is JSON, left out where empty", () =>
    Effect.gen(function* () {
      const found = yield* rowsOf("lists.csv", ' a , list\n1,"[""x"",""y, z""]"\n2,\n3,[]\n', ["list"])
      assert.deepStrictEqual(found, [
        { line: 2, cells: { a: "1", list: ["x", "y, z"] } },
        { line: 3, cells: { a: "2" } },
        { line: 4, cells: { a: "3", list: [] } },
      ])
    }))

  it.effect("D31 a row with more or fewer cells than the header is told, and the rows after it are read", () =>
    Effect.gen(function* () {
      const found = yield* rowsOf("odd.csv", "a,b\n1\n1,2,3\n1,2\n")
      assert.deepStrictEqual(found.map(({ line, problem }) => [line, problem?.reason ?? "good"]), [
        [2, "has 1 cells; the header has 2"],
        [3, "has 3 cells; the header has 2"],
        [4, "good"],
      ])
    }))
})
