# epsaudit's client for R, one file without packages: `serve` speaks the protocol of external programs, `check` runs a
# frozen test. Their specifications: docs/how-to/other-languages.md, docs/reference/frozen-tests.md.

# The value of a text of JSON: lists with names for objects, without for arrays, NULL for null. Objects such as
# {"float": "inf"} are the numbers that JSON has no word for.
from_json <- function(text) {
  pattern <- '"(\\\\.|[^"\\\\])*"|[][{}:,]|[^][{}:,"[:space:]]+'
  words <- regmatches(text, gregexpr(pattern, text, perl = TRUE, useBytes = TRUE))[[1]]
  at <- 0L
  value <- function() {
    at <<- at + 1L
    word <- words[at]
    if (word == "[" || word == "{") return(parts(word == "{"))
    if (startsWith(word, '"')) return(unquoted(word))
    switch(word, null = NULL, true = TRUE, false = FALSE, as.numeric(word))
  }
  parts <- function(named) {
    found <- list()
    names <- character()
    while (!words[at + 1L] %in% c("]", "}")) {
      if (words[at + 1L] == ",") at <<- at + 1L
      if (named) {
        names <- c(names, unquoted(words[at + 1L]))
        at <<- at + 2L # the name and the colon
      }
      one <- value()
      found <- c(found, list(one))
    }
    at <<- at + 1L
    if (named) names(found) <- names
    if (identical(names, "float") && is.character(found[[1]])) as.numeric(found[[1]]) else found
  }
  value()
}

unquoted <- function(word) {
  text <- substr(word, 2L, nchar(word) - 1L)
  if (!grepl("\\", text, fixed = TRUE)) return(text)
  escapes <- gregexpr("\\\\u[dD][89abAB]..\\\\u....|\\\\u....|\\\\.", text)
  regmatches(text, escapes) <- list(vapply(regmatches(text, escapes)[[1]], unescaped, ""))
  text
}

unescaped <- function(escape) {
  if (startsWith(escape, "\\u")) {
    units <- strtoi(strsplit(substring(escape, 3L), "\\u", fixed = TRUE)[[1]], 16L)
    if (length(units) == 2L) units <- 0x10000 + (units[1] - 0xd800) * 1024 + units[2] - 0xdc00
    return(intToUtf8(units))
  }
  simple <- c(b = "\b", t = "\t", n = "\n", f = "\f", r = "\r")
  letter <- substring(escape, 2L)
  if (letter %in% names(simple)) simple[[letter]] else letter
}

# An output as JSON: numbers, vectors of them, texts, TRUE, FALSE, NULL, lists.
to_json <- function(y) {
  if (is.null(y)) return("null")
  if (is.list(y) || length(y) != 1L) {
    parts <- vapply(y, to_json, "")
    if (is.null(names(y))) return(paste0("[", paste(parts, collapse = ", "), "]"))
    names <- vapply(names(y), to_json, "")
    return(paste0("{", paste(names, parts, sep = ": ", collapse = ", "), "}"))
  }
  if (is.na(y) && !is.nan(y)) return("null") # NA
  if (is.character(y)) return(quoted(y))
  if (is.logical(y)) return(if (y) "true" else "false")
  if (is.finite(y) && (y != 0 || 1 / y > 0)) return(sprintf("%.17g", y))
  sprintf('{"float": "%s"}', if (is.nan(y)) "nan" else if (y == 0) "-0.0" else if (y > 0) "inf" else "-inf")
}

quoted <- function(text) {
  codes <- utf8ToInt(enc2utf8(text))
  letters <- intToUtf8(codes, multiple = TRUE)
  odd <- codes < 32L | codes == 34L | codes == 92L
  letters[odd] <- sprintf("\\u%04x", codes[odd])
  paste0('"', paste(letters, collapse = ""), '"')
}

# Answer requests until the input ends; outputs depend on the seeds alone, of which R takes 2^31 - 1.
serve <- function(mechanism) {
  cat('{"epsaudit": 1, "seeded": true}\n')
  flush(stdout())
  input <- file("stdin", "r")
  while (length(line <- readLines(input, 1L)) > 0L) {
    request <- from_json(line)
    set.seed(request$seed %% 2147483647)
    answers <- vapply(seq_len(request$size), function(i) to_json(mechanism(request$dataset)), "")
    writeLines(answers)
    flush(stdout())
  }
}

# A witness.json, with what is read of it a run as vectors; stops with a sentence if it is no valid test.
frozen <- function(path) {
  test <- from_json(paste(readLines(path, warn = FALSE), collapse = "\n"))
  numbers <- function(parts) vapply(parts, number, 0)
  known <- identical(test$epsaudit, "frozen test") && identical(test$version, 1) && length(test$bets) > 0L
  known <- known && isTRUE(test$combine %in% c("sum", "max")) && isTRUE(test$runs >= 1) && isTRUE(test$epsilon >= 0)
  alarm <- number(test$false_alarm)
  if (!known || !isTRUE(test$delta >= 0 && test$delta < 1) || !isTRUE(alarm > 0 && alarm < 1))
    stop(path, " is not a frozen test of version 1.", call. = FALSE)
  test$bets <- vapply(test$bets, numbers, c(0, 0))
  allowed <- test$bets[1L, ] > 0 & test$bets[1L, ] < 1 & test$bets[2L, ] >= 0
  if (!isTRUE(all(allowed) && sum(test$bets[2L, ]) <= 1 + 1e-9))
    stop(path, " bets what no claim allows: bets lie in (0, 1), and their weights sum to 1.", call. = FALSE)
  ends <- function(parts) lapply(parts, function(part) list(low = number(part[[1]]), high = number(part[[2]]),
                                                            low_in = part[[3]], high_in = part[[4]]))
  test$guess_x <- ends(test$guess_x)
  test$guess_x_prime <- ends(test$guess_x_prime)
  test$plain <- all(vapply(test$terms, function(term) is.null(term$knots), NA))
  test$at <- 1L + vapply(test$terms, function(term) as.integer(term$coordinate), 0L)
  if (test$plain) test$slopes <- vapply(test$terms, function(term) term$slope, 0)
  test$terms <- lapply(test$terms, function(term) {
    term$knots <- numbers(term$knots)
    term$values <- numbers(term$values)
    term
  })
  test$learnt <- numbers(test$learnt)
  test
}

# 1 for true, 0 for false, NaN for what is no number.
number <- function(x) if ((is.numeric(x) || is.logical(x)) && length(x) == 1L) as.numeric(x) else NaN

term_value <- function(term, x) {
  if (length(term$knots) == 0L) return(term$slope * x)
  if (is.nan(x)) return(term$missing)
  if (is.infinite(x)) return(if (x > 0) term$above else term$below)
  if (length(term$knots) == 1L) return(term$values)
  approx(term$knots, term$values, x, rule = 2)$y
}

# 1 for the guess that the dataset was x, -1 for x', 0 for none.
guess <- function(test, output) {
  many <- is.list(output) && is.null(names(output))
  plain <- is.numeric(output) || is.logical(output)
  numbers <- if (plain) as.numeric(output) else if (many) vapply(output, number, 0) else number(output)
  if (length(numbers) != test$coordinates) return(0)
  numbers <- numbers[test$at]
  values <- if (test$plain) test$slopes * numbers else mapply(term_value, test$terms, numbers)
  y <- if (test$combine == "max") max(values) else sum(values)
  if (is.na(y)) return(0)
  if (inside(test$guess_x, y)) 1 else if (inside(test$guess_x_prime, y)) -1 else 0
}

inside <- function(intervals, y) {
  for (part in intervals) {
    if ((y > part$low || (y == part$low && part$low_in)) && (y < part$high || (y == part$high && part$high_in)))
      return(TRUE)
  }
  FALSE
}

# Logarithm of the wealth after so many correct guesses, wrong ones, and runs without a guess.
log_wealth <- function(test, tally) {
  leak <- ((length(test$guess_x) > 0L) + (length(test$guess_x_prime) > 0L)) * test$delta / 2
  stakes <- test$bets[1L, ] / (exp(test$epsilon) + leak)
  grown <- tally[1] * log1p(stakes * (1 - leak)) + tally[2] * log1p(-test$bets[1L, ]) + tally[3] * log1p(-stakes * leak)
  log(sum(test$bets[2L, ] * exp(pmin(grown, 600))))
}

# Count at most as many runs as the test says, and bet; stops with a sentence if the claim is refuted.
check <- function(test, seed, mechanism) {
  set.seed(seed)
  tally <- c(0, 0, 0)
  said <- function(how, runs) sprintf("%s: %s %d runs, %d guessed right and %d wrong", test$text, how, as.integer(runs),
                                      as.integer(tally[1]), as.integer(tally[2]))
  for (run in seq_len(test$runs)) {
    coin <- if (runif(1) < 0.5) 1 else -1
    guessed <- coin * guess(test, mechanism(if (coin > 0) test$x else test$x_prime))
    place <- c(2L, 3L, 1L)[guessed + 2]
    tally[place] <- tally[place] + 1
    if ((run %% 64 == 0 || run == test$runs) && log_wealth(test, tally) >= -log(test$false_alarm))
      stop(said("refuted after", run), call. = FALSE)
  }
  m <- sum(test$learnt)
  rate <- (tally + test$learnt) / (test$runs + m)
  moved <- abs(tally / test$runs - test$learnt / m) > 5 * sqrt(rate * (1 - rate) * (1 / test$runs + 1 / m))
  stale <- if (any(moved[1:2])) "; stale: the mechanism is not what it was when this was frozen" else ""
  paste0(said("not refuted by", test$runs), stale)
}
