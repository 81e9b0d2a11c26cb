/** Redocly and Spectral with their recommended rules, on the OpenAPI document (§4.5). */
import { findingsOf, type Judge, judgesFolder } from "./Judge.ts"

export const openApiLinters: Judge = {
  name: "openapi-linters",
  programs: ["node"],
  run: ({ documentFile }) => findingsOf("node", ["openapi-linters.js", documentFile], { cwd: judgesFolder }),
}
