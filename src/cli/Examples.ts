/** Examples for the help of commands. */

export const makeExample = (args: string, description: string) => ({
  command: `npm run tickerline -- ${args}`,
  description,
})

/** An example in which npm prints no lines of its own, so that standard output contains only the result. */
export const makeSilentExample = (args: string, description: string) => ({
  command: `npm run --silent tickerline -- ${args}`,
  description,
})
