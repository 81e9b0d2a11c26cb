/** §3, §5, §9.2: how a key is sent, and how long an endpoint lives. */
import { type ContractDifference, type ContractLocation, makeDifference } from "./Difference.ts"
import { canonicalJson, type JsonObject, toArray, toObject } from "./Json.ts"

/** Each way to sign in, with what its scheme says rather than how it is called. */
const demands = (operation: JsonObject, document: JsonObject) => {
  const schemes = toObject(toObject(document["components"])["securitySchemes"])
  return toArray(operation["security"]).map((demand) =>
    canonicalJson(
      Object.entries(toObject(demand)).map(([name, scopes]) => {
        const { description: _, ...scheme } = toObject(schemes[name])
        return [scheme, scopes]
      }),
    )
  )
}

export const compareSecurity = (
  path: string,
  old: JsonObject,
  now: JsonObject,
  before: JsonObject,
  after: JsonObject,
): ReadonlyArray<ContractDifference> => {
  const [left, right] = [demands(old, before), demands(now, after)]
  const place: ContractLocation = { path, name: "authentication", label: "authentication", isRequest: true }
  const gone = left.filter((way) => !right.includes(way))
  const added = right.filter((way) => !left.includes(way))
  if (gone.length + added.length === 0) return []
  if (right.length === 0) {
    return [makeDifference(place, { kind: "removed", breaking: false, description: "no key is needed" })]
  }
  if (left.length === 0) {
    return [makeDifference(place, { kind: "added", breaking: true, description: "a key is needed" })]
  }
  return gone.length > 0
    ? [
      makeDifference(place, {
        kind: "changed",
        breaking: true,
        description: "a way to send a key is gone, or another",
      }),
    ]
    : [makeDifference(place, { kind: "added", breaking: false, description: "there is another way to send a key" })]
}

export const compareLifecycle = (path: string, old: JsonObject, now: JsonObject): ReadonlyArray<ContractDifference> => {
  const place = (name: string): ContractLocation => ({ path, name, label: "lifecycle", isRequest: false })
  const [was, is] = [old["deprecated"] === true, now["deprecated"] === true]
  const [sunset, sunsetNow] = [old["x-sunset"], now["x-sunset"]].map((day) =>
    day === undefined ? undefined : String(day)
  )
  return [
    ...(was === is ? [] : [
      makeDifference(place("deprecated"), {
        kind: "changed",
        breaking: false,
        description: is ? "deprecated" : "no longer deprecated",
      }),
    ]),
    ...(sunset === sunsetNow ? [] : [makeDifference(place("x-sunset"), {
      kind: "changed",
      // A day that was promised cannot come sooner (§3).
      breaking: sunset !== undefined && sunsetNow !== undefined && sunsetNow < sunset,
      description: `the sunset was ${sunset ?? "open"} and is ${sunsetNow ?? "open"}`,
    })]),
  ]
}

export const describeRemovedEndpoint = (path: string, old: JsonObject, today: string): ContractDifference => {
  const sunset = old["x-sunset"]
  const inTime = old["deprecated"] === true && typeof sunset === "string" && sunset < today
  return makeDifference({ path, name: null, label: "endpoint", isRequest: true }, {
    kind: "removed",
    breaking: !inTime,
    description: inTime ? `it is gone, as announced for ${sunset}` : "it is gone",
  })
}
