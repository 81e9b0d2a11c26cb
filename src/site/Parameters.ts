/** The parameters of an endpoint, as a table in which the visitor fills in their values. */
import { getIn } from "../catalogue/Schemas.ts"
import { inlineCode } from "./blocks/Tables.ts"
import { escapeHtml } from "./Html.ts"
import {
  allowedValues,
  describeAllowedValues,
  describeBounds,
  followReference,
  listAt,
  nonNullAlternatives,
  renderSentences,
  renderType,
  textAt,
} from "./SchemaDescriptions.ts"

/** The words of a parameter that takes one of them; a list's description names its words itself. */
const wordsOf = (schema: unknown) =>
  nonNullAlternatives(schema).every((kind) => getIn(kind, "type") !== "array" && allowedValues(kind).length > 0)
    ? allowedValues(schema)
    : []

/** The field in which a visitor writes a parameter's value. */
const input = (name: string, schema: unknown, value: string) => {
  const attributes = `id="p-${escapeHtml(name)}" name="${escapeHtml(name)}" form="try"`
  const isBoolean = nonNullAlternatives(schema).some((kind) => getIn(kind, "type") === "boolean")
  const values = isBoolean ? ["true", "false"] : wordsOf(schema)
  if (values.length === 0) {
    const map = getIn(followReference(schema), "type") === "object" ? ` data-parameters="all"` : ""
    return `<input type="text" ${attributes}${map} value="${escapeHtml(value)}" autocomplete="off" spellcheck="false">`
  }
  const options = ["", ...values].map((one) =>
    `<option value="${escapeHtml(one)}"${one === value ? " selected" : ""}>${
      one === "" ? "not sent" : escapeHtml(one)
    }</option>`
  )
  return `<select ${attributes}>${options.join("")}</select>`
}

/** The table's cells of an operation's parameters, with the fields filled in from a request. */
export const parameterRows = (operation: unknown, asked: URLSearchParams) => {
  const named = new Set(listAt(operation, "parameters").map((parameter) => textAt(parameter, "name")))
  const rest = new URLSearchParams(Array.from(asked).filter(([name]) => !named.has(name))).toString()
  return listAt(operation, "parameters").map((parameter) => {
    const [name, schema] = [textAt(parameter, "name"), getIn(parameter, "schema")]
    const value = getIn(followReference(schema), "type") === "object" ? rest : asked.get(name) ?? ""
    const required = getIn(parameter, "required") === true ? ` <span class="badge warn">required</span>` : ""
    return [
      `<label for="p-${escapeHtml(name)}">${inlineCode(name)}</label> ${renderType(schema)}${required}`,
      input(name, schema, value),
      renderSentences(textAt(parameter, "description"), describeAllowedValues(wordsOf(schema)), describeBounds(schema)),
    ]
  })
}
