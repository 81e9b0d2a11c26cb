/** Declares MCP tools, and decodes their arguments. Errors are worded like those for query parameters (D4, D11). */
import { Effect, Schema } from "effect"
import type { JsonSchema } from "effect"
import { Tool } from "effect/ai"
import { formatNameSuggestion } from "../../contract/rules/NameSuggestions.ts"
import { makeValidationReasonFormatter } from "../../contract/rules/ValidationMessages.ts"
import { McpRequestContext } from "./McpRequestContext.ts"
import { failWithToolError, McpToolError } from "./ToolErrors.ts"

const unknownArgumentReason = "is not an argument of this tool"

const getReasons = makeValidationReasonFormatter({
  missing: "is required",
  unexpected: unknownArgumentReason,
  wrongType: "has the wrong type",
})

type ArgumentsSchema = Schema.Codec<unknown, unknown> & { readonly fields: Schema.Struct.Fields }

const toJsonSchema = (schema: ArgumentsSchema): JsonSchema.JsonSchema =>
  Schema.toJsonSchemaDocument(schema, { onExcessProperty: "error" }).schema

/**
 * Declares an MCP tool that only reads. The declaration does not check the arguments: the tool's handler must decode
 * them with `makeToolArgumentsDecoder`, which words errors the way the API does.
 */
export const makeReadOnlyMcpTool = <const Name extends string, Success extends Schema.Top>(
  name: Name,
  { arguments: schema, description, success, title }: {
    readonly title: string
    readonly description: string
    readonly arguments: ArgumentsSchema
    readonly success: Success
  },
) =>
  Tool.dynamic(name, { description, parameters: toJsonSchema(schema), success, failure: McpToolError })
    .addDependency(McpRequestContext)
    .annotate(Tool.Title, title)
    .annotate(Tool.Readonly, true)
    .annotate(Tool.Destructive, false)
    .annotate(Tool.Idempotent, true)
    .annotate(Tool.OpenWorld, false)

/**
 * Returns a function that decodes a tool's arguments. If any are invalid, it fails with a `validation_error` that lists
 * at most 20 of them. For an unknown argument, the error suggests the closest argument of the tool.
 */
export const makeToolArgumentsDecoder = <A, I>(
  schema: Schema.Codec<A, I> & { readonly fields: Schema.Struct.Fields },
): (sent: unknown) => Effect.Effect<A, McpToolError, McpRequestContext> => {
  const decode = Schema.decodeUnknownEffect(schema, { onExcessProperty: "error", errors: "all" })
  const names = Object.keys(schema.fields)
  return (sent) =>
    Effect.catch(decode(sent), ({ issue }) => {
      const fields = getReasons(issue).slice(0, 20).map(({ name, reason }) => ({
        field: name.slice(0, 64) || "arguments",
        reason: reason === unknownArgumentReason ? `${reason}.${formatNameSuggestion(name, names)}` : reason,
      }))
      const message = fields.map(({ field, reason }) => `${field} ${reason}`).join("; ")
      return failWithToolError({ code: "validation_error", message, details: { fields } })
    })
}
