/**
 * Compares two OpenAPI 3.1 documents: §9.2 (breaking changes), §9.3 (compatible changes). This is written by hand
 * because no Node.js package compares OpenAPI 3.1 documents (docs/decisions/0051-contract-comparison.md).
 */
import { compareSchemas } from "./CompareSchemas.ts"
import { type ContractDifference, type ContractLocation, makeContractDifference } from "./Difference.ts"
import {
  canonicalJson,
  compareKeys,
  type JsonObject,
  makeReferenceResolver,
  type ReferenceResolver,
  toArray,
  toObject,
  toStrings,
} from "./Json.ts"

type Differences = ReadonlyArray<ContractDifference>

interface Document {
  readonly document: JsonObject
  readonly resolve: ReferenceResolver
}

interface DocumentPair {
  readonly before: Document
  readonly after: Document
}

const makeDocument = (document: JsonObject): Document => ({ document, resolve: makeReferenceResolver(document) })

const compareSchemaPair = (location: ContractLocation, old: unknown, now: unknown, { after, before }: DocumentPair) =>
  compareSchemas(location, old, now, { before: before.resolve, after: after.resolve, visited: new Set() })

// ---------------------------------------------------------------------------------------------------------------------
// Parameters
// ---------------------------------------------------------------------------------------------------------------------

/** Returns the parameters, with keys that consist of location and name, such as `query limit`. */
const parametersOf = (operation: JsonObject, { resolve }: Document): JsonObject =>
  Object.fromEntries(
    toArray(operation["parameters"]).map((one) => resolve(one)).map((
      one,
    ) => [`${String(one["in"])} ${String(one["name"])}`, one]),
  )

const compareParameters = (path: string, old: JsonObject, now: JsonObject, documents: DocumentPair): Differences => {
  const [left, right] = [parametersOf(old, documents.before), parametersOf(now, documents.after)]
  const { added, common, removed } = compareKeys(left, right)
  const locate = (key: string): ContractLocation => {
    const [place = "", ...words] = key.split(" ")
    const name = words.join(" ")
    return { path, name, label: `parameter ${name} (${place})`, isRequest: true }
  }
  return [
    ...removed.map((key) =>
      makeContractDifference(locate(key), { kind: "removed", breaking: true, description: "removed" })
    ),
    ...added.map((key) => {
      const breaking = toObject(right[key])["required"] === true
      return makeContractDifference(locate(key), {
        kind: "added",
        breaking,
        description: breaking ? "new and required" : "new",
      })
    }),
    ...common.flatMap((key) => {
      const [one, other] = [toObject(left[key]), toObject(right[key])]
      const [wasRequired, isRequired] = [one["required"] === true, other["required"] === true]
      const encodings = ["style", "explode", "allowReserved", "content"].filter((keyword) =>
        canonicalJson(one[keyword]) !== canonicalJson(other[keyword])
      )
      return [
        ...(wasRequired === isRequired ? [] : [
          makeContractDifference(locate(key), {
            kind: "changed",
            breaking: isRequired,
            description: isRequired ? "now required" : "now optional",
          }),
        ]),
        ...encodings.map((keyword) =>
          makeContractDifference(locate(key), { kind: "changed", breaking: true, description: `${keyword} changed` })
        ),
        ...compareSchemaPair(locate(key), one["schema"], other["schema"], documents),
      ]
    }),
  ]
}

// ---------------------------------------------------------------------------------------------------------------------
// Responses
// ---------------------------------------------------------------------------------------------------------------------

/** Compares the media types or the headers of a response, matched by name. */
const compareParts = (
  location: ContractLocation,
  old: JsonObject,
  now: JsonObject,
  documents: DocumentPair,
): Differences => {
  const { added, common, removed } = compareKeys(old, now)
  const locate = (name: string): ContractLocation => ({ ...location, name, label: `${location.label} ${name}` })
  return [
    ...removed.map((name) =>
      makeContractDifference(locate(name), { kind: "removed", breaking: true, description: "removed" })
    ),
    ...added.map((name) =>
      makeContractDifference(locate(name), { kind: "added", breaking: false, description: "new" })
    ),
    ...common.flatMap((name) => {
      const [one, other] = [documents.before.resolve(old[name]), documents.after.resolve(now[name])]
      const [wasRequired, isRequired] = [one["required"] === true, other["required"] === true]
      const description = isRequired ? "now always present" : "now optional"
      return [
        ...(wasRequired === isRequired
          ? []
          : [makeContractDifference(locate(name), { kind: "changed", breaking: wasRequired, description } as const)]),
        ...compareSchemaPair(locate(name), one["schema"], other["schema"], documents),
      ]
    }),
  ]
}

const compareResponses = (path: string, old: JsonObject, now: JsonObject, documents: DocumentPair): Differences => {
  const [left, right] = [toObject(old["responses"]), toObject(now["responses"])]
  const { added, common, removed } = compareKeys(left, right)
  const locate = (status: string): ContractLocation => ({
    path,
    name: status,
    label: `response ${status}`,
    isRequest: false,
  })
  return [
    ...removed.map((status) =>
      makeContractDifference(locate(status), {
        kind: "removed",
        breaking: /^[123d]/.test(status),
        description: "removed",
      })
    ),
    ...added.map((status) =>
      makeContractDifference(locate(status), { kind: "added", breaking: false, description: "new" })
    ),
    ...common.flatMap((status) => {
      const [one, other] = [documents.before.resolve(left[status]), documents.after.resolve(right[status])]
      const headers = { ...locate(status), label: `header of ${status}` }
      return [
        ...compareParts(locate(status), toObject(one["content"]), toObject(other["content"]), documents),
        ...compareParts(headers, toObject(one["headers"]), toObject(other["headers"]), documents),
      ]
    }),
  ]
}

// ---------------------------------------------------------------------------------------------------------------------
// Authentication and lifecycle
// ---------------------------------------------------------------------------------------------------------------------

/** Lists the accepted authentication methods. Security schemes are compared by content, not by name. */
const listCredentials = (operation: JsonObject, document: JsonObject) => {
  const schemes = toObject(toObject(document["components"])["securitySchemes"])
  return toArray(operation["security"]).map((requirement) =>
    canonicalJson(
      Object.entries(toObject(requirement)).map(([name, scopes]) => {
        const { description: _, ...scheme } = toObject(schemes[name])
        return [scheme, scopes]
      }),
    )
  )
}

const compareSecurity = (
  path: string,
  old: JsonObject,
  now: JsonObject,
  { after, before }: DocumentPair,
): Differences => {
  const [left, right] = [listCredentials(old, before.document), listCredentials(now, after.document)]
  const location: ContractLocation = { path, name: "authentication", label: "authentication", isRequest: true }
  const removed = left.filter((one) => !right.includes(one))
  const added = right.filter((one) => !left.includes(one))
  if (removed.length + added.length === 0) return []
  if (right.length === 0) {
    return [makeContractDifference(location, { kind: "removed", breaking: false, description: "no key is required" })]
  }
  if (left.length === 0) {
    return [makeContractDifference(location, { kind: "added", breaking: true, description: "a key is required" })]
  }
  return removed.length > 0
    ? [makeContractDifference(location, {
      kind: "changed",
      breaking: true,
      description: "a way to send a key is removed or changed",
    })]
    : [makeContractDifference(location, { kind: "added", breaking: false, description: "a new way to send a key" })]
}

const compareLifecycle = (path: string, old: JsonObject, now: JsonObject): Differences => {
  const locate = (name: string): ContractLocation => ({ path, name, label: "lifecycle", isRequest: false })
  const [wasDeprecated, isDeprecated] = [old["deprecated"] === true, now["deprecated"] === true]
  const [sunset, sunsetNow] = [old["x-sunset"], now["x-sunset"]].map((day) =>
    day === undefined ? undefined : String(day)
  )
  return [
    ...(wasDeprecated === isDeprecated ? [] : [
      makeContractDifference(locate("deprecated"), {
        kind: "changed",
        breaking: false,
        description: isDeprecated ? "deprecated" : "no longer deprecated",
      }),
    ]),
    ...(sunset === sunsetNow ? [] : [makeContractDifference(locate("x-sunset"), {
      kind: "changed",
      // §3 (lifecycle): an announced sunset must not be moved to an earlier date.
      breaking: sunset !== undefined && sunsetNow !== undefined && sunsetNow < sunset,
      description: `the sunset was ${sunset ?? "not set"} and is ${sunsetNow ?? "not set"}`,
    })]),
  ]
}

const describeRemovedEndpoint = (path: string, old: JsonObject, today: string): ContractDifference => {
  const sunset = old["x-sunset"]
  const isAfterSunset = old["deprecated"] === true && typeof sunset === "string" && sunset < today
  return makeContractDifference({ path, name: null, label: "endpoint", isRequest: true }, {
    kind: "removed",
    breaking: !isAfterSunset,
    description: isAfterSunset ? `removed, as announced for ${sunset}` : "removed",
  })
}

// ---------------------------------------------------------------------------------------------------------------------
// Documents
// ---------------------------------------------------------------------------------------------------------------------

const methods = new Set(["get", "put", "post", "delete", "options", "head", "patch", "trace", "query"])

/** Returns the operations, with keys that consist of method and path, such as `get /v1/news`. */
const operationsOf = ({ document, resolve }: Document): JsonObject =>
  Object.fromEntries(
    Object.entries(toObject(document["paths"])).flatMap(([path, item]) =>
      Object.entries(resolve(item)).filter(([method]) => methods.has(method)).map(([method, operation]) => [
        `${method} ${path}`,
        {
          parameters: [],
          ...toObject(operation),
          security: toObject(operation)["security"] ?? document["security"] ?? [],
        },
      ])
    ),
  )

const compareOperations = (path: string, old: JsonObject, now: JsonObject, documents: DocumentPair): Differences => {
  const body: ContractLocation = { path, name: "body", label: "body", isRequest: true }
  return [
    ...compareSecurity(path, old, now, documents),
    ...compareParameters(path, old, now, documents),
    ...(canonicalJson(old["requestBody"]) === canonicalJson(now["requestBody"])
      ? []
      : [makeContractDifference(body, { kind: "changed", breaking: true, description: "the request body changed" })]),
    ...compareResponses(path, old, now, documents),
    ...compareLifecycle(path, old, now),
  ]
}

/**
 * Lists all differences except those in descriptions, examples, and schema names. The removal of an endpoint is allowed
 * if its announced sunset is before `today` (YYYY-MM-DD).
 */
export const compareContracts = (before: unknown, after: unknown, today: string): Differences => {
  const documents: DocumentPair = { before: makeDocument(toObject(before)), after: makeDocument(toObject(after)) }
  const [old, now] = [operationsOf(documents.before), operationsOf(documents.after)]
  const pathOf = (key: string) => key.slice(key.indexOf(" ") + 1)
  const { added, common, removed } = compareKeys(old, now)
  const found = [
    ...removed.map((key) => describeRemovedEndpoint(pathOf(key), toObject(old[key]), today)),
    ...added.map((key) =>
      makeContractDifference({ path: pathOf(key), name: null, label: "endpoint", isRequest: true }, {
        kind: "added",
        breaking: false,
        description: "new",
      })
    ),
    ...common.flatMap((key) => compareOperations(pathOf(key), toObject(old[key]), toObject(now[key]), documents)),
  ]
  return Array.from(new Map(found.map((one) => [`${one.description} ${one.breaking}`, one])).values())
}

/**
 * Returns the document in the form stored in `clients/contract/v1.json`: without examples, and with the release
 * version.
 */
export const makeReleasedContract = (document: JsonObject, release: string): JsonObject => {
  const withoutExamples: JsonObject = JSON.parse(
    JSON.stringify(document, (name, value: unknown) => name === "examples" ? undefined : value),
  )
  const { openapi, ...rest } = withoutExamples
  return { openapi, "x-release": release, ...rest }
}

export const readReleaseVersion = (document: unknown) => toStrings([toObject(document)["x-release"]])[0] ?? ""
