/** Lints the OpenAPI document with Redocly and Spectral and their recommended rules (§4.5, OpenAPI). */
import { type Judge, judgesFolder, runForFindings } from "./Judge.ts"

/** Checks the OpenAPI document alone, in a process of its own. */
export const openApiLinters: Judge = {
  name: "openapi-linters",
  programs: ["node"],
  run: ({ documentFile }) => runForFindings("node", ["openapi-linters.js", documentFile], { cwd: judgesFolder }),
}
