# A noisy count, right and with half the noise that it needs. `Rscript example.R` runs the frozen test on both, and ends
# with status 1 unless it refutes the second alone; `Rscript example.R serve half` speaks the protocol.
source("epsaudit.R")

count <- function(scale) function(data) length(data) + scale * (rexp(1) - rexp(1))

passes <- function(test, scale) tryCatch({
  cat(check(test, 1, count(scale)), "\n")
  TRUE
}, error = function(refuted) {
  cat(conditionMessage(refuted), "\n")
  FALSE
})

words <- c(commandArgs(trailingOnly = TRUE), "", "")
scale <- if (words[2] == "half") 0.5 else 1
if (words[1] == "serve") {
  serve(count(scale))
} else if (words[1] == "check") {
  quit(status = if (passes(frozen(words[3]), scale)) 0 else 1)
} else if (words[1] == "guess") { # what is guessed of the outputs that are read
  test <- frozen(words[2])
  guesses <- vapply(readLines(input <- file("stdin")), function(line) guess(test, from_json(line)), 0)
  tally <- c(sum(guesses == 1), sum(guesses == -1), sum(guesses == 0))
  close(input)
  cat("[", paste(guesses, collapse = ", "), "]\n", format(log_wealth(test, tally), digits = 15), "\n", sep = "")
} else {
  test <- frozen("../count.json")
  quit(status = if (passes(test, 1) && !passes(test, 0.5)) 0 else 1)
}
