//! epsaudit's client for Rust, one file without dependencies: `serve` speaks the protocol of external programs, `check`
//! runs a frozen test. They are specified in epsaudit's docs: how-to/other-languages.md and reference/frozen-tests.md.

use std::{fmt, fs, io::BufRead, io::Write, iter, slice, str};

/// A dataset or an output.
#[derive(Clone, Debug, PartialEq)]
pub enum Json { Null, Bool(bool), Number(f64), Text(String), List(Vec<Json>), Object(Vec<(String, Json)>) }
impl Json {
    /// Panics if this is not JSON.
    pub fn parse(text: &str) -> Json { parse(&mut text.chars().peekable()) }
    /// A field of an object; null if there is none.
    pub fn get(&self, name: &str) -> &Json {
        let Json::Object(fields) = self else { return &Json::Null };
        fields.iter().find(|(key, _)| key == name).map_or(&Json::Null, |(_, value)| value)
    }
    /// 1 or 0 if this is true or false, NaN if it is no number.
    pub fn number(&self) -> f64 {
        match *self { Json::Bool(value) => f64::from(value), Json::Number(value) => value, _ => f64::NAN }
    }
    pub fn text(&self) -> &str { if let Json::Text(text) = self { text } else { "" } }
    pub fn list(&self) -> &[Json] { if let Json::List(parts) = self { parts } else { &[] } }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let escaped = |c: char| if c < ' ' || "\"\\".contains(c) { format!("\\u{:04x}", c as u32) } else { c.into() };
        let quoted = |text: &str| format!("\"{}\"", text.chars().map(escaped).collect::<String>());
        let field = |(key, value): &(String, Json)| format!("{}: {value}", quoted(key));
        match self {
            Json::Null => write!(f, "null"),
            Json::Bool(value) => write!(f, "{value}"),
            Json::Number(value) if value.is_finite() => write!(f, "{value:?}"),
            Json::Number(value) => write!(f, "{{\"float\": \"{}\"}}", value.to_string().to_lowercase()),
            Json::Text(text) => write!(f, "{}", quoted(text)),
            Json::List(parts) => write!(f, "[{}]", parts.iter().map(Json::to_string).collect::<Vec<_>>().join(", ")),
            Json::Object(fields) => write!(f, "{{{}}}", fields.iter().map(field).collect::<Vec<_>>().join(", ")),
        }
    }
}

fn parse(text: &mut iter::Peekable<str::Chars>) -> Json {
    match text.find(|c| !c.is_whitespace()).expect("JSON ends early") {
        '[' => Json::List(parts(text, ']')),
        '{' => match parts(text, '}').as_slice() {
            [Json::Text(name), Json::Text(word)] if name == "float" => Json::parse(word), // what JSON has no word for
            parts => Json::Object(parts.chunks(2).map(|two| (two[0].text().into(), two[1].clone())).collect()),
        },
        '"' => {
            let mut units = Vec::new();
            loop {
                match text.next().expect("JSON ends early") {
                    '"' => return Json::Text(String::from_utf16_lossy(&units)),
                    '\\' => units.push(match text.next().expect("JSON ends early") {
                        'u' => u16::from_str_radix(&text.take(4).collect::<String>(), 16).expect("no escape of JSON"),
                        c => *[8, 9, 10, 12, 13].get("btnfr".find(c).unwrap_or(9)).unwrap_or(&(c as u16)),
                    }),
                    c => units.extend_from_slice(c.encode_utf16(&mut [0; 2])),
                }
            }
        }
        first => {
            let rest = iter::from_fn(|| text.next_if(|c| !",:]} \t\r\n".contains(*c)));
            match iter::once(first).chain(rest).collect::<String>().as_str() {
                "null" => Json::Null,
                word @ ("true" | "false") => Json::Bool(word == "true"),
                other => Json::Number(other.parse().expect("no number of JSON")),
            }
        }
    }
}

/// The parts of a list, or the names and values of an object in turn.
fn parts(text: &mut iter::Peekable<str::Chars>, end: char) -> Vec<Json> {
    let next = || {
        while text.next_if(|c| c.is_whitespace() || ",:".contains(*c)).is_some() {}
        text.next_if_eq(&end).is_none().then(|| parse(text))
    };
    iter::from_fn(next).collect()
}

/// SplitMix64, as the standard library has no generator: for tests, not for releases.
pub struct Rng(pub u64);
impl Rng {
    /// Uniform in (0, 1).
    pub fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e3779b97f4a7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58476d1ce4e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d049bb133111eb);
        (((z ^ (z >> 31)) >> 12) as f64 + 0.5) / (1u64 << 52) as f64
    }
}

/// Answer requests until the input ends, with doubles if they are asked for; outputs depend on the seeds alone.
pub fn serve(mechanism: impl Fn(&Json, &mut Rng) -> Json) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{{\"epsaudit\": 1, \"seeded\": true, \"binary\": true}}").and_then(|()| out.flush()).unwrap();
    for line in std::io::stdin().lock().lines() {
        let request = Json::parse(&line.unwrap());
        let [seed, size] = ["seed", "size"].map(|name| request.get(name).number() as u64);
        let mut rng = Rng(seed);
        let outputs: Vec<Json> = (0..size).map(|_| mechanism(request.get("dataset"), &mut rng)).collect();
        let frame = if *request.get("binary") == Json::Bool(true) { frame(&outputs) } else { None };
        let lines = || outputs.iter().map(|output| format!("{output}\n")).collect::<String>().into_bytes();
        out.write_all(&frame.unwrap_or_else(lines)).and_then(|()| out.flush()).unwrap();
    }
}

/// Outputs as doubles behind a header; none unless all are numbers, or vectors of one length.
fn frame(outputs: &[Json]) -> Option<Vec<u8>> {
    let (mut found, mut first) = (Vec::new(), None);
    for output in outputs {
        let numbers = if let Json::List(parts) = output { parts } else { slice::from_ref(output) };
        let shape = (if matches!(output, Json::List(_)) { b"\0vec" } else { b"\0num" }, numbers.len() as u32);
        let length = (8 * outputs.len() as u64 * numbers.len() as u64).to_le_bytes();
        if found.is_empty() { found = [&shape.0[..], &shape.1.to_le_bytes(), &length].concat() }
        let right = !numbers.is_empty() && numbers.iter().all(|one| matches!(one, Json::Number(_)));
        if !right || *first.get_or_insert(shape) != shape { return None }
        found.extend(numbers.iter().flat_map(|one| one.number().to_le_bytes()));
    }
    Some(found)
}

/// The object of a witness.json; panics with a sentence if it is no valid test.
pub fn frozen(path: &str) -> Json {
    let test = Json::parse(&fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}")));
    let (get, open) = (|name| test.get(name).number(), |x: f64| x > 0.0 && x < 1.0);
    let [kind, combine] = ["epsaudit", "combine"].map(|name| test.get(name).text());
    let known = kind == "frozen test" && get("version") == 1.0 && ["sum", "max"].contains(&combine);
    let sound = get("epsilon") >= 0.0 && (0.0..1.0).contains(&get("delta")) && open(get("false_alarm"));
    let bets = test.get("bets").list();
    assert!(known && sound && get("runs") >= 1.0 && !bets.is_empty(), "{path} is not a frozen test of version 1.");
    let bets = bets.iter().map(|bet| (bet.list()[0].number(), bet.list()[1].number()));
    let weights = bets.map(|(fraction, weight)| if open(fraction) && weight >= 0.0 { weight } else { f64::NAN });
    let allowed = weights.sum::<f64>() <= 1.0 + 1e-9;
    assert!(allowed, "{path} bets what no claim allows: bets lie in (0, 1), and their weights sum to 1.");
    test
}

/// 1 for the guess that the dataset was x, -1 for x', 0 for none.
pub fn guess(test: &Json, output: &Json) -> i32 {
    let numbers = if let Json::List(parts) = output { parts } else { slice::from_ref(output) };
    if numbers.len() as f64 != test.get("coordinates").number() { return 0 }
    let terms = test.get("terms").list().iter();
    let values = terms.map(|term| value(term, numbers[term.get("coordinate").number() as usize].number()));
    let most = |a: f64, b: f64| if b > a || b.is_nan() { b } else { a };
    let y = if test.get("combine").text() == "max" { values.reduce(most).unwrap() } else { values.sum() };
    let holds = |part: &Json| {
        let [low, high, with_low, with_high] = [0, 1, 2, 3].map(|i| part.list()[i].number());
        (y > low || y == low && with_low == 1.0) && (y < high || y == high && with_high == 1.0)
    };
    let inside = |name| test.get(name).list().iter().any(holds);
    if inside("guess_x") { 1 } else { -i32::from(inside("guess_x_prime")) }
}

fn value(term: &Json, x: f64) -> f64 {
    let [knots, values] = ["knots", "values"].map(|name| term.get(name).list());
    match knots.iter().take_while(|knot| knot.number() <= x).count() {
        _ if knots.is_empty() => term.get("slope").number() * x,
        _ if !x.is_finite() => term.get(if x > 0.0 { "above" } else if x < 0.0 { "below" } else { "missing" }).number(),
        i if i == 0 || i == knots.len() => values[i.saturating_sub(1)].number(),
        i => {
            let [a, b, left, right] = [&values[i - 1], &values[i], &knots[i - 1], &knots[i]].map(Json::number);
            a + (b - a) * (x - left) / (right - left)
        }
    }
}

/// Logarithm of the wealth after so many correct guesses, wrong ones, and runs without a guess.
pub fn log_wealth(test: &Json, [correct, wrong, none]: [f64; 3]) -> f64 {
    let events = ["guess_x", "guess_x_prime"].iter().filter(|name| !test.get(name).list().is_empty()).count() as f64;
    let leak = events * test.get("delta").number() / 2.0;
    let wealth = test.get("bets").list().iter().map(|bet| {
        let (fraction, weight) = (bet.list()[0].number(), bet.list()[1].number());
        let stake = fraction / (test.get("epsilon").number().exp() + leak);
        let logs = [(stake * (1.0 - leak)).ln_1p(), (-fraction).ln_1p(), (-stake * leak).ln_1p()];
        weight * (correct * logs[0] + wrong * logs[1] + none * logs[2]).min(600.0).exp()
    });
    wealth.sum::<f64>().ln()
}

/// Count at most as many runs as the test says, and bet; panics with a sentence if the claim is refuted.
pub fn check(test: &Json, seed: u64, mechanism: impl Fn(&Json, &mut Rng) -> Json) -> String {
    let [runs, alarm] = ["runs", "false_alarm"].map(|name| test.get(name).number());
    let (mut rng, mut tally, name) = (Rng(seed), [0.0; 3], test.get("text").text());
    for run in 1..=runs as u64 {
        let (coin, x) = if rng.uniform() < 0.5 { (1, "x") } else { (-1, "x_prime") };
        tally[[1, 2, 0][(1 + coin * guess(test, &mechanism(test.get(x), &mut rng))) as usize]] += 1.0;
        let refuted = (run % 64 == 0 || run == runs as u64) && log_wealth(test, tally) >= -alarm.ln();
        assert!(!refuted, "{name}: refuted after {run} runs, {} guessed right and {} wrong", tally[0], tally[1]);
    }
    let before: Vec<f64> = test.get("learnt").list().iter().map(Json::number).collect();
    let m: f64 = before.iter().sum();
    let moved = (0..2).any(|i| {
        let rate = (tally[i] + before[i]) / (runs + m);
        (tally[i] / runs - before[i] / m).abs() > 5.0 * (rate * (1.0 - rate) * (1.0 / runs + 1.0 / m)).sqrt()
    });
    let stale = if moved { "; stale: the mechanism is not what it was when this was frozen" } else { "" };
    format!("{name}: not refuted by {runs} runs, {} guessed right and {} wrong{stale}", tally[0], tally[1])
}
