/**
 * Attacks the service with slow clients. Meanwhile another client must still get responses, and the service must close
 * the slow requests.
 */
import { type Judge, type JudgedService, runProgram } from "./Judge.ts"

/**
 * The maximum duration of another client's request, in ms: half the time after which the service closes slow requests.
 */
const maxDurationMillis = 5_000

interface Attack {
  readonly name: string
  readonly args: ReadonlyArray<string>
  /** The text that the tool prints if the attack ends as expected. */
  readonly end: string
}

const closesAll = "No open connections left"

/** The attack that runs every time. */
const attack: Attack = { name: "slow headers", args: ["-H", "-c", "100", "-r", "100", "-l", "60"], end: closesAll }

/** The additional attacks that run with `--full`. */
const fullAttacks: ReadonlyArray<Attack> = [
  { name: "900 times slow headers", args: ["-H", "-c", "900", "-r", "300", "-l", "60"], end: closesAll },
  { name: "slow bodies", args: ["-B", "-c", "900", "-r", "300", "-l", "90"], end: closesAll },
  // The service allows a slow reader three minutes, so this attack reaches its 30-second time limit first.
  {
    name: "slow readers",
    args: ["-X", "-c", "900", "-r", "300", "-l", "30", "-w", "1", "-y", "2"],
    end: "Hit test time limit",
  },
]

/** Requests a list repeatedly until `isOver` returns true. Returns the first problem. */
const requestUntil = async ({ key, origin }: JudgedService, isOver: () => boolean): Promise<string | undefined> => {
  while (!isOver()) {
    const response = await fetch(`${origin}/v1/news?limit=1`, {
      headers: { authorization: `Bearer ${key}` },
      signal: AbortSignal.timeout(maxDurationMillis),
    }).catch(String)
    const problem = typeof response === "string" ? response : response.ok ? undefined : `status ${response.status}`
    if (typeof response !== "string") await response.arrayBuffer()
    if (problem !== undefined) return problem
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
  return undefined
}

/** Runs an attack while another client sends requests. Returns the problems found. */
const runAttack = async ({ args, end, name }: Attack, target: JudgedService) => {
  let isOver = false
  // The tool busy-waits, so it runs at the lowest priority.
  const run = runProgram("nice", [
    "-n",
    "19",
    "slowhttptest",
    ...args,
    "-i",
    "5",
    "-u",
    `${target.origin}/v1/news?limit=100`,
  ])
    .finally(() => {
      isOver = true
    })
  const [problem, { output }] = await Promise.all([requestUntil(target, () => isOver), run])
  return [
    ...(problem === undefined ? [] : [`${name}: another client got no response: ${problem}`]),
    ...(output.includes(end) ? [] : [`${name}: the attack did not end with "${end}":\n${output.slice(-1500)}`]),
  ]
}

/** Checks that slow clients do not delay other clients. */
export const slowhttptest: Judge = {
  name: "slowhttptest",
  programs: ["slowhttptest", "nice"],
  run: async (target) => {
    const findings: Array<string> = []
    for (const one of target.isFull ? [attack, ...fullAttacks] : [attack]) {
      findings.push(...await runAttack(one, target))
    }
    return findings
  },
}
