/** §3, §5, §9.2: how a key is sent, and how long an endpoint lives. */
import { at, type Difference, type Place } from "./Difference.ts"
import { canonical, type Json, json, list } from "./Json.ts"

/** Each way to sign in, with what its scheme says rather than how it is called. */
const demands = (operation: Json, document: Json) => {
  const schemes = json(json(document["components"])["securitySchemes"])
  return list(operation["security"]).map((demand) =>
    canonical(
      Object.entries(json(demand)).map(([name, scopes]) => {
        const { description: _, ...scheme } = json(schemes[name])
        return [scheme, scopes]
      }),
    )
  )
}

export const security = (path: string, old: Json, now: Json, before: Json, after: Json): ReadonlyArray<Difference> => {
  const [left, right] = [demands(old, before), demands(now, after)]
  const place: Place = { path, name: "authentication", where: "authentication", sent: true }
  const gone = left.filter((way) => !right.includes(way))
  const added = right.filter((way) => !left.includes(way))
  if (gone.length + added.length === 0) return []
  if (right.length === 0) return [at(place, { kind: "removed", breaking: false, says: "no key is needed" })]
  if (left.length === 0) return [at(place, { kind: "added", breaking: true, says: "a key is needed" })]
  return gone.length > 0
    ? [at(place, { kind: "changed", breaking: true, says: "a way to send a key is gone, or another" })]
    : [at(place, { kind: "added", breaking: false, says: "there is another way to send a key" })]
}

export const lifecycle = (path: string, old: Json, now: Json): ReadonlyArray<Difference> => {
  const place = (name: string): Place => ({ path, name, where: "lifecycle", sent: false })
  const [was, is] = [old["deprecated"] === true, now["deprecated"] === true]
  const [sunset, sunsetNow] = [old["x-sunset"], now["x-sunset"]].map((day) =>
    day === undefined ? undefined : String(day)
  )
  return [
    ...(was === is ? [] : [
      at(place("deprecated"), { kind: "changed", breaking: false, says: is ? "deprecated" : "no longer deprecated" }),
    ]),
    ...(sunset === sunsetNow ? [] : [at(place("x-sunset"), {
      kind: "changed",
      // A day that was promised cannot come sooner (§3).
      breaking: sunset !== undefined && sunsetNow !== undefined && sunsetNow < sunset,
      says: `the sunset was ${sunset ?? "open"} and is ${sunsetNow ?? "open"}`,
    })]),
  ]
}

export const gone = (path: string, old: Json, today: string): Difference => {
  const sunset = old["x-sunset"]
  const inTime = old["deprecated"] === true && typeof sunset === "string" && sunset < today
  return at({ path, name: null, where: "endpoint", sent: true }, {
    kind: "removed",
    breaking: !inTime,
    says: inTime ? `it is gone, as announced for ${sunset}` : "it is gone",
  })
}
