/** The parameters of an endpoint, as a table in which the visitor fills in their values. */
import { at } from "../catalogue/Schemas.ts"
import { code } from "./blocks/Tables.ts"
import { escape } from "./Html.ts"
import { bounds, choices, kinds, listAt, oneOf, resolved, sentences, textAt, typed } from "./Schemas.ts"

/** The words of a parameter that takes one of them; a list's description names its words itself. */
const wordsOf = (schema: unknown) =>
  kinds(schema).every((kind) => at(kind, "type") !== "array" && choices(kind).length > 0) ? choices(schema) : []

/** The field in which a visitor writes a parameter's value. */
const input = (name: string, schema: unknown, value: string) => {
  const attributes = `id="p-${escape(name)}" name="${escape(name)}" form="try"`
  const isBoolean = kinds(schema).some((kind) => at(kind, "type") === "boolean")
  const values = isBoolean ? ["true", "false"] : wordsOf(schema)
  if (values.length === 0) {
    const map = at(resolved(schema), "type") === "object" ? ` data-parameters="all"` : ""
    return `<input type="text" ${attributes}${map} value="${escape(value)}" autocomplete="off" spellcheck="false">`
  }
  const options = ["", ...values].map((one) =>
    `<option value="${escape(one)}"${one === value ? " selected" : ""}>${
      one === "" ? "not sent" : escape(one)
    }</option>`
  )
  return `<select ${attributes}>${options.join("")}</select>`
}

/** The table's cells of an operation's parameters, with the fields filled in from a request. */
export const parametersOf = (operation: unknown, asked: URLSearchParams) => {
  const named = new Set(listAt(operation, "parameters").map((parameter) => textAt(parameter, "name")))
  const rest = new URLSearchParams(Array.from(asked).filter(([name]) => !named.has(name))).toString()
  return listAt(operation, "parameters").map((parameter) => {
    const [name, schema] = [textAt(parameter, "name"), at(parameter, "schema")]
    const value = at(resolved(schema), "type") === "object" ? rest : asked.get(name) ?? ""
    const required = at(parameter, "required") === true ? ` <span class="badge warn">required</span>` : ""
    return [
      `<label for="p-${escape(name)}">${code(name)}</label> ${typed(schema)}${required}`,
      input(name, schema, value),
      sentences(textAt(parameter, "description"), oneOf(wordsOf(schema)), bounds(schema)),
    ]
  })
}
