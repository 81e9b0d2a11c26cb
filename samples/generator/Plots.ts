/** The plots by name. */
import { adr, forward, late, quiet, spac, steady, voter, withdrawn } from "./CalmPlots.ts"
import type { Plot } from "./Plot.ts"
import type { Dice } from "./Random.ts"
import { life, pump, raiser, renamer, sinking } from "./StormyPlots.ts"

export const plots = {
  life,
  raiser,
  pump,
  steady,
  warned: sinking(415),
  extended: sinking(290),
  appealed: sinking(50),
  delisted: sinking(45, { delisted: 375 }),
  renamer,
  adr,
  quiet,
  /** Not even its exchange is known. */
  shell: (dice: Dice): Plot => ({ ...quiet(dice), exchange: null }),
  /** A name and nothing more. */
  blank: (dice: Dice): Plot => ({ ...quiet(dice), exchange: null, holders: "none" }),
  forward,
  spac,
  late,
  voter,
  withdrawn,
}
