/** Lints the OpenAPI document with the recommended rules of Redocly and Spectral (§4.5, OpenAPI). */
import { type Judge, judgesFolder, runForFindings } from "./Judge.ts"

/** Lints the OpenAPI document in a separate process. Sends no requests to the service. */
export const openApiLinters: Judge = {
  name: "openapi-linters",
  programs: ["node"],
  run: ({ documentFile }) => runForFindings("node", ["openapi-linters.js", documentFile], { cwd: judgesFolder }),
}
