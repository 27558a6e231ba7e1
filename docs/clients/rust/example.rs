//! A noisy count, right and with half the noise that it needs. `cargo test` runs the frozen test on both;
//! `epsaudit audit --command 'target/debug/example serve half' ...` audits it over the protocol.

mod epsaudit;
use epsaudit::{check, frozen, guess, log_wealth, serve, Json, Rng};

fn count(scale: f64) -> impl Fn(&Json, &mut Rng) -> Json {
    move |data, rng| Json::Number(data.list().len() as f64 + scale * (rng.uniform().ln() - rng.uniform().ln()))
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let mechanism = count(if words[1..].contains(&"half".into()) { 0.5 } else { 1.0 });
    match words[0].as_str() {
        "serve" => serve(mechanism),
        "check" => println!("{}", check(&frozen(&words[2]), 1, mechanism)),
        _ => {
            let test = frozen(&words[1]); // "guess": what is guessed of the outputs that are read
            let lines = std::io::stdin().lines().map(|one| Json::parse(&one.unwrap()));
            let guesses: Vec<i32> = lines.map(|one| guess(&test, &one)).collect();
            let tally = [1, -1, 0].map(|kind| guesses.iter().filter(|one| **one == kind).count() as f64);
            println!("{guesses:?}\n{}", log_wealth(&test, tally));
        }
    }
}

#[test]
fn the_right_one_passes() {
    println!("{}", check(&frozen("../count.json"), 1, count(1.0)));
}

#[test]
#[should_panic(expected = ": refuted after")]
fn half_the_noise_is_refuted() {
    check(&frozen("../count.json"), 1, count(0.5));
}
