/** All scenarios, in the order in which they are run. */
import type { Scenario } from "./Scenario.ts"
import * as Failover from "./scenarios/Failover.ts"
import * as Parts from "./scenarios/Parts.ts"
import * as Processes from "./scenarios/Processes.ts"
import * as Shared from "./scenarios/Shared.ts"

export const scenarios: ReadonlyArray<Scenario> = [
  Processes.calm,
  Processes.scaling,
  Processes.killed,
  Processes.stopped,
  Processes.poolers,
  Shared.revoked,
  Shared.wrongKeys,
  Shared.limits,
  Shared.redis,
  Shared.mails,
  Parts.loaded,
  Failover.killed,
  Failover.lost,
  Failover.switchover,
  Parts.behind,
  Parts.conflicts,
  Parts.killed,
  Parts.store,
  Parts.demoted,
  Failover.asynchronous,
]
