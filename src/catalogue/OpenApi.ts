/** The API as an OpenAPI 3.1 document, with examples that are answers of the service itself over its sample data. */
import { Predicate } from "effect"
import { OpenApi } from "effect/http-api"
import examples from "../../samples/examples.json" with { type: "json" }
import { Api } from "../Api.ts"

const at = (value: unknown, ...path: ReadonlyArray<string>): unknown =>
  path.reduce<unknown>((found, key) => Predicate.isObject(found) ? Reflect.get(found, key) : undefined, value)

/** Each under the path and status that it answers; several of one kind stand side by side. */
const withExamples = (spec: Record<string, unknown>) => {
  for (const { name, request, response, status } of examples) {
    const path = request.split("?", 1)[0] ?? request
    const content = at(spec, "paths", path, "get", "responses", String(status), "content", "application/json")
    if (!Predicate.isObject(content)) throw new Error(`samples/examples.json: nothing documents ${status} of ${path}`)
    Object.assign(content, {
      examples: { ...Object(at(content, "examples")), [name]: { summary: request, value: response } },
    })
  }
  return spec
}

/** The same API; only what is said of it is more. */
export const DocumentedApi = Api.annotate(OpenApi.Transform, withExamples)

export const document = OpenApi.fromApi(DocumentedApi)
