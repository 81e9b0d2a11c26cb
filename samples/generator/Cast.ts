/** The companies of the small market: what they are called, and which plot their two years follow. */
import type { plots } from "./Plots.ts"

export type PlotName = keyof typeof plots

export interface Role {
  /** Symbols in the order in which the company carries them; a plot uses as many as it has renames, and one more. */
  readonly symbols: readonly [string, ...ReadonlyArray<string>]
  readonly name: string
  readonly plot: PlotName
}

const role = (plot: PlotName, name: string, ...symbols: Role["symbols"]): Role => ({ plot, name, symbols })

export const cast: ReadonlyArray<Role> = [
  role("life", "Gapwell Therapeutics", "GAP7", "GPW8"),
  role("raiser", "Deltarix Biosciences", "DLT5"),
  role("pump", "Pumpernik Holdings", "PMP1"),
  role("steady", "Bigsley Foods", "BIG1"),
  role("appealed", "Sinkara Media", "SNK1"),
  role("renamer", "Renamara Software", "RNM1", "RNM2", "RNM3", "RNM4"),
  role("adr", "Nordquell Shipping", "NDQ2"),
  role("quiet", "Quietus Mining", "QT01"),
  role("forward", "Forwarda Semiconductors", "FWD3"),
  role("spac", "Spacelot Acquisition", "SPC1"),
  role("life", "Orbanta Robotics", "ORB3", "ORB4"),
  role("raiser", "Myconurel Therapeutics", "MYC2"),
  role("pump", "Luxivan Technology", "LUX8"),
  role("steady", "Atlamere Insurance", "ATL6"),
  role("delisted", "Delistra Apparel", "DEL6"),
  role("raiser", "Quarkline Semiconductors", "QRK8"),
  role("pump", "Zhanvora Education", "ZHN3"),
  role("steady", "Duomark Stores", "DUO1.B"),
  role("late", "Latterly Logistics", "LAT4"),
  role("voter", "Votanda Energy", "VOT4"),
  role("life", "Voltigo Batteries", "VLT4", "VLT5"),
  role("raiser", "Helivox Diagnostics", "HLV3"),
  role("pump", "Kelimu Logistics", "KLM6"),
  role("steady", "Cornholt Rail", "CRN2"),
  role("extended", "Fallowin Apparel", "FAL2"),
  role("adr", "Keystaff Health", "KEY2-A"),
  role("withdrawn", "Withdray Mining", "WDR5"),
  role("shell", "Shellbourne Holdings", "SHL2"),
  role("life", "Nimbara Software", "NIM8", "NIM9"),
  role("raiser", "Aquaforge Energy", "AQF4"),
  role("pump", "Sanguro Foods", "SGR5"),
  role("steady", "Medantiv Health", "MED7"),
  role("delisted", "Drapeway Stores", "DRP3"),
  role("late", "Procrastine Media", "PRC6"),
  role("raiser", "Brenwick Mining", "BRN6"),
  role("pump", "Takoru Media", "TKO4"),
  role("steady", "Techalon Systems", "TCH4"),
  role("warned", "Lowenta Mining", "LOW4"),
  role("adr", "Oestermark Power", "OST3"),
  role("forward", "Trebledo Software", "TRB6"),
  role("spac", "Unisonder Acquisition", "UNI2"),
  role("life", "Solquist Energy", "SOL9", "SLQ1"),
  role("raiser", "Novaquill Software", "NVQ7"),
  role("pump", "Harkvale Holdings", "HKV9"),
  role("steady", "Retalia Stores", "RET3"),
  role("renamer", "Aliasson Systems", "ALI1", "ALI2", "ALI3", "ALI4"),
  role("voter", "Ballotine Devices", "BLT7"),
  role("raiser", "Thermavale Devices", "THR2"),
  role("pump", "Bolinbao Technology", "BOL2"),
  role("steady", "Utelor Power", "UTL5"),
  role("blank", "Vanishora Holdings", "VAN0"),
]
