/** The target of a request, as sent: whether it can be read, which path it names, and what that is called. */
import { Option } from "effect"
import type { HttpServerRequest } from "effect/http"
import * as Endpoints from "./catalogue/Endpoints.ts"

export const isDecodable = (target: string) => {
  if (!target.includes("%")) return true
  try {
    decodeURIComponent(target.replaceAll("+", " "))
    return true
  } catch {
    return false
  }
}

/** The path as routes are written; what cannot be decoded stays as it is. */
export const pathOf = (target: string) => {
  const path = target.split("?", 1)[0] ?? target
  return isDecodable(path) ? decodeURI(path) : path
}

/** What a trace of the request is called: of all paths that lead nowhere the same. */
export const nameOf = ({ method, url }: HttpServerRequest.HttpServerRequest) =>
  `${method} ${Option.match(Endpoints.at(pathOf(url)), { onNone: () => "other", onSome: ({ row }) => row.path })}`
