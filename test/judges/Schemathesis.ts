/** Runs all Schemathesis checks on all operations, with and without an API key. */
import { join } from "node:path"
import { type Judge, judgesFolder, runForFindings } from "./Judge.ts"

/** Sends random and boundary-value requests and checks the responses against the OpenAPI document. */
export const schemathesis: Judge = {
  name: "schemathesis",
  programs: ["schemathesis"],
  run: async ({ folder, isFull, key, origin }) => {
    const environment = { PYTHONPATH: judgesFolder, PYTHONDONTWRITEBYTECODE: "1", JUDGES_FULL: isFull ? "1" : "" }
    const configuration = join(judgesFolder, "schemathesis.toml")
    const mode = isFull ? [] : ["--generation-deterministic", "--no-shrink"]
    const run = (examples: number, ...args: ReadonlyArray<string>) =>
      runForFindings(
        "schemathesis",
        [
          `--config-file=${configuration}`,
          "run",
          `${origin}/v1/openapi.json`,
          "--no-color",
          `--max-examples=${isFull ? 100 : examples}`,
          ...mode,
          ...args,
        ],
        { cwd: folder, env: environment },
      )
    return [
      ...await run(10, `--header=Authorization: Bearer ${key}`),
      // Without a key, only public operations succeed, and the run above already tests those with more requests.
      ...await run(2, "--phases=examples,fuzzing"),
    ]
  },
}
