/**
 * Compares rows cell by cell. The failure message lists the dataset, the rows identified by their keys, and the
 * columns.
 */
import { assert } from "@effect/vitest"
import { isDeepStrictEqual } from "node:util"
import { endpointsByDataset } from "../../src/api/catalogue/DatasetEndpoints.ts"
import { loadableDatasets } from "../../src/contract/Datasets.ts"

type Row = Readonly<Record<string, unknown>>

/** The maximum number of differences listed in a failure message. */
const maxListed = 20

/** Returns the columns that identify a row in the dataset, or an empty list for an unknown dataset. */
export const getKeyColumns = (dataset: string): ReadonlyArray<string> =>
  loadableDatasets.find(({ table }) => table === dataset)?.key ?? []

/**
 * Returns the dataset whose rows the endpoint returns. If the endpoint returns rows of no dataset, or of several,
 * returns the path.
 */
export const getDatasetOfPath = (path: string) => {
  const datasets = endpointsByDataset.filter(({ endpoints }) => endpoints.includes(path)).map(({ dataset }) => dataset)
  const named = datasets.find((dataset) => path === `/v1/${dataset.replaceAll("_", "-")}`)
  return named ?? (datasets.length === 1 ? datasets[0] : undefined) ?? path
}

const print = (value: unknown) => value === undefined ? "nothing" : JSON.stringify(value)

/** Labels each row with its key columns, or with its position if it has none of them. Duplicate labels are numbered. */
const nameRows = (rows: ReadonlyArray<Row>, key: ReadonlyArray<string>) => {
  const counts = new Map<string, number>()
  return rows.map((row, index) => {
    const cells = key.filter((column) => column in row).map((column) => `${column}=${print(row[column])}`)
    const name = cells.length === 0 ? `number ${index + 1}` : cells.join(" ")
    const count = (counts.get(name) ?? 0) + 1
    counts.set(name, count)
    return count === 1 ? name : `${name} (${count})`
  })
}

/** Finds missing, unexpected, differing and misplaced rows. Rows with equal keys are treated as the same row. */
export const findRowDifferences = (
  key: ReadonlyArray<string>,
  actual: ReadonlyArray<Row>,
  expected: ReadonlyArray<Row>,
): ReadonlyArray<string> => {
  const [actualNames, expectedNames] = [nameRows(actual, key), nameRows(expected, key)]
  const found = new Map(actualNames.map((name, index) => [name, actual[index]]))
  const wanted = new Set(expectedNames)
  const differences = expected.flatMap((expectedRow, index) => {
    const name = expectedNames[index] ?? ""
    const row = found.get(name)
    if (row === undefined) return [`row ${name} is missing`]
    return Array.from(new Set([...Object.keys(expectedRow), ...Object.keys(row)])).flatMap((column) =>
      isDeepStrictEqual(row[column], expectedRow[column]) && column in row === column in expectedRow
        ? []
        : [`row ${name}, column ${column}: ${print(row[column])} instead of ${print(expectedRow[column])}`]
    )
  })
  const unexpected = actualNames.filter((name) => !wanted.has(name)).map((name) => `row ${name} is not expected`)
  const misplaced = expectedNames.findIndex((name, index) => name !== actualNames[index])
  const order = differences.length + unexpected.length > 0 || misplaced < 0
    ? []
    : [`at position ${misplaced + 1} is row ${actualNames[misplaced]} instead of ${expectedNames[misplaced]}`]
  return [...differences, ...unexpected, ...order]
}

/** Asserts that the rows are equal and in the same order. A failure message starts with `dataset` and `about`. */
export const assertEqualRows = (
  dataset: string,
  actual: ReadonlyArray<Row>,
  expected: ReadonlyArray<Row>,
  about = "",
) => {
  const differences = findRowDifferences(getKeyColumns(dataset), actual, expected)
  if (differences.length === 0) return
  const listed = differences.slice(0, maxListed).map((difference) => `\n  ${difference}`).join("")
  const rest = differences.length > maxListed ? `\n  and ${differences.length - maxListed} more` : ""
  assert.fail(`${dataset}${about === "" ? "" : `, ${about}`}: ${differences.length} differences${listed}${rest}`)
}
