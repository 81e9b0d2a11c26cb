/** Redocly and Spectral with their recommended rules, on the OpenAPI document (§4.5). */
import { type Judge, judgesFolder, runForFindings } from "./Judge.ts"

export const openApiLinters: Judge = {
  name: "openapi-linters",
  programs: ["node"],
  run: ({ documentFile }) => runForFindings("node", ["openapi-linters.js", documentFile], { cwd: judgesFolder }),
}
