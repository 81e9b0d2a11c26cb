/** Schemathesis with all checks on all operations, with a key and without one. */
import { join } from "node:path"
import { type Judge, judgesFolder, runForFindings } from "./Judge.ts"

export const schemathesis: Judge = {
  name: "schemathesis",
  programs: ["schemathesis"],
  run: async ({ folder, isFull, key, origin }) => {
    const environment = { PYTHONPATH: judgesFolder, PYTHONDONTWRITEBYTECODE: "1", JUDGES_FULL: isFull ? "1" : "" }
    const configuration = join(judgesFolder, "schemathesis.toml")
    const depth = isFull ? ["--max-examples=100"] : ["--max-examples=10", "--generation-deterministic", "--no-shrink"]
    const run = (args: ReadonlyArray<string>) =>
      runForFindings(
        "schemathesis",
        ["--config-file", configuration, "run", `${origin}/v1/openapi.json`, "--no-color", ...depth, ...args],
        { cwd: folder, env: environment },
      )
    return [
      ...await run([`--header=Authorization: Bearer ${key}`]),
      ...await run(["--phases=examples,fuzzing"]),
    ]
  },
}
