// The client of epsaudit for C++17, a single header without dependencies. `serve` implements the protocol of external
// programs, which docs/how-to/other-languages.md specifies. `check` runs a frozen test, whose format is specified in
// docs/reference/frozen-tests.md.
#pragma once
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iostream>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace epsaudit {
// A dataset or an output as a JSON value. The parts of a list are its entries. The parts of an object are its names
// and values in alternation.
struct Json {
    enum Kind { Null, Bool, Number, Text, List, Object } kind = Null;
    double value = std::nan("");  // 1 for true, 0 for false, NaN for a value that is not a number
    std::string text{};
    std::vector<Json> parts{};
    Json() = default;
    Json(double number) : kind(Number), value(number) {}
    Json(std::string word) : kind(Text), text(std::move(word)) {}
    Json(std::vector<Json> list, Kind what = List) : kind(what), parts(std::move(list)) {}
    // Return a field of an object, or null if the object does not have this field.
    const Json& operator[](const std::string& name) const {
        static const Json null;
        for (std::size_t i = 0; kind == Object && i + 1 < parts.size(); i += 2)
            if (parts[i].text == name) return parts[i + 1];
        return null;
    }
    std::string write() const {
        char digits[32];
        std::snprintf(digits, sizeof digits, "%.17g", value);
        if (kind == Null || kind == Bool) return kind == Null ? "null" : value == 1 ? "true" : "false";
        bool odd = !std::isfinite(value) || (value == 0 && std::signbit(value));  // JSON reads -0 as an integer
        if (kind == Number) return !odd ? digits : "{\"float\": \"" + std::string(digits) + "\"}";
        std::string said = kind == Text ? "\"" : kind == List ? "[" : "{";
        for (unsigned char c : text)
            std::snprintf(digits, sizeof digits, c < 32 || c == '"' || c == '\\' ? "\\u%04x" : "%c", c), said += digits;
        for (std::size_t i = 0; i < parts.size(); ++i)
            said += (i == 0 ? "" : kind == Object && i % 2 == 1 ? ": " : ", ") + parts[i].write();
        return said + (kind == Text ? "\"" : kind == List ? "]" : "}");
    }
    static Json parse(const std::string& text, std::size_t&& at = 0) { return parse(text, at); }
    static Json parse(const std::string& text, std::size_t& at) {
        at = text.find_first_not_of(" \t\r\n", at);
        if (at == std::string::npos) throw std::runtime_error("JSON ends early");
        if (text[at] == '"') return Json(string(text, at));
        if (text[at] == '[' || text[at] == '{') {
            Kind kind = text[at++] == '[' ? List : Object;
            std::vector<Json> found;
            while ((at = text.find_first_not_of(" \t\r\n,:", at)) < text.size() && text[at] != ']' && text[at] != '}')
                found.push_back(parse(text, at));
            bool lacked = kind == Object && found.size() == 2 && found[0].text == "float" && found[1].kind == Text;
            return ++at, lacked ? parse(found[1].text) : Json(std::move(found), kind);  // for example infinity
        }
        std::string word = text.substr(at, text.find_first_of(",:]} \t\r\n", at) - at);
        at += word.size();
        char* rest = nullptr;
        Json found(word == "true" ? 1.0 : std::strtod(word.c_str(), &rest));
        if (word == "true" || word == "false") found.kind = Bool;
        else if (word == "null") found = Json();
        else if (*rest != 0) throw std::runtime_error(word + " is no number of JSON");
        return found;
    }
    static std::string string(const std::string& text, std::size_t& at) {
        std::string found, from = "btnfr", to = "\b\t\n\f\r";
        for (unsigned high = (++at, 0); text.at(at) != '"'; ++at) {
            bool escaped = text[at] == '\\';
            unsigned char c = static_cast<unsigned char>(text.at(escaped ? ++at : at));
            std::size_t known = escaped ? from.find(c) : std::string::npos;
            if (!escaped || c != 'u') { found += known == std::string::npos ? c : to[known]; continue; }
            unsigned code = static_cast<unsigned>(std::stoul(text.substr(at + 1, 4), nullptr, 16));
            at += 4;
            if (code >> 10 == 0x37) code = 0x10000 + ((high & 0x3ff) << 10) + (code & 0x3ff);  // second surrogate
            if ((high = code) >> 10 == 0x36) continue;  // first surrogate
            int more = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
            for (found += static_cast<char>("\0\xc0\xe0\xf0"[more] | (code >> 6 * more)); more > 0; --more)
                found += static_cast<char>(0x80 | (code >> 6 * (more - 1) & 0x3f));
        }
        return ++at, found;
    }
};
using Rng = std::mt19937_64;
using Mechanism = std::function<Json(const Json&, Rng&)>;

// Answer requests until the input ends. The outputs depend on the seeds of the requests only.
inline void serve(const Mechanism& mechanism) {
    std::cout << "{\"epsaudit\": 1, \"seeded\": true}" << std::endl;
    for (std::string line; std::getline(std::cin, line); std::cout << std::flush) {
        const Json request = Json::parse(line), &data = request["dataset"];
        Rng rng(static_cast<std::uint64_t>(request["seed"].value));
        for (auto left = static_cast<std::uint64_t>(request["size"].value); left > 0; --left)
            std::cout << mechanism(data, rng).write() << '\n';
    }
}

// Read a file witness.json and return its object. Throw an exception with a message if it is not a valid test.
inline Json frozen(const std::string& path) {
    std::ifstream file(path);
    if (!file) throw std::runtime_error("there is no " + path);
    const Json test = Json::parse(std::string(std::istreambuf_iterator<char>(file), {})), &bets = test["bets"];
    double delta = test["delta"].value, alarm = test["false_alarm"].value, weights = 0.0;
    bool known = test["epsaudit"].text == "frozen test" && test["version"].value == 1 && !bets.parts.empty();
    known = known && (test["combine"].text == "sum" || test["combine"].text == "max") && test["runs"].value >= 1;
    if (!known || !(test["epsilon"].value >= 0 && delta >= 0 && delta < 1 && alarm > 0 && alarm < 1))
        throw std::runtime_error(path + " is not a frozen test of version 1.");
    for (const Json& bet : bets.parts) {
        double fraction = bet.parts.at(0).value, weight = bet.parts.at(1).value;
        weights += fraction > 0 && fraction < 1 && weight >= 0 ? weight : INFINITY;
    }
    if (weights <= 1 + 1e-9) return test;
    throw std::runtime_error(path + " bets what no claim allows: bets lie in (0, 1), and their weights sum to 1.");
}

// Return the score of one coordinate x of an output: linear, or interpolated between knots.
inline double value(const Json& term, double x) {
    const std::vector<Json>&knots = term["knots"].parts, &values = term["values"].parts;
    if (knots.empty()) return term["slope"].value * x;
    if (!std::isfinite(x)) return term[std::isnan(x) ? "missing" : x > 0 ? "above" : "below"].value;
    std::size_t i = 0;
    while (i < knots.size() && knots[i].value <= x) ++i;
    if (i == 0 || i == knots.size()) return values[i == 0 ? 0 : i - 1].value;
    double a = values[i - 1].value, b = values[i].value, left = knots[i - 1].value, right = knots[i].value;
    return a + (b - a) * (x - left) / (right - left);
}

// Return the guess from one output: 1 if the guess is the dataset x, -1 if it is x', and 0 for no guess.
inline int guess(const Json& test, const Json& output) {
    const std::vector<Json> numbers = output.kind == Json::List ? output.parts : std::vector<Json>{output};
    if (static_cast<double>(numbers.size()) != test["coordinates"].value) return 0;
    bool max = test["combine"].text == "max";
    double y = max ? -INFINITY : 0.0;
    for (const Json& term : test["terms"].parts) {
        double one = value(term, numbers.at(static_cast<std::size_t>(term["coordinate"].value)).value);
        y = !max ? y + one : one > y || std::isnan(one) ? one : y;
    }
    for (int guessed : {1, -1})
        for (const Json& part : test[guessed > 0 ? "guess_x" : "guess_x_prime"].parts) {
            double low = part.parts[0].value, high = part.parts[1].value;
            bool above = y > low || (y == low && part.parts[2].value == 1);
            if (above && (y < high || (y == high && part.parts[3].value == 1))) return guessed;
        }
    return 0;
}

// Return the logarithm of the wealth, given the numbers of correct guesses, wrong guesses and runs without a guess.
inline double log_wealth(const Json& test, const std::array<double, 3>& tally) {
    int events = !test["guess_x"].parts.empty() + !test["guess_x_prime"].parts.empty();
    double leak = events * test["delta"].value / 2.0, wealth = 0.0;
    for (const Json& bet : test["bets"].parts) {
        double fraction = bet.parts[0].value, stake = fraction / (std::exp(test["epsilon"].value) + leak);
        double grown = tally[0] * std::log1p(stake * (1.0 - leak)) + tally[1] * std::log1p(-fraction);
        wealth += bet.parts[1].value * std::exp(std::min(grown + tally[2] * std::log1p(-stake * leak), 600.0));
    }
    return std::log(wealth);
}

// Run the mechanism, at most the number of times that the test specifies, and bet on the guesses. Return a sentence
// with the counts, or throw an exception with this sentence if the claim is refuted.
inline std::string check(const Json& test, std::uint64_t seed, const Mechanism& mechanism) {
    Rng rng(seed);
    std::array<double, 3> tally{}, before{};
    double runs = test["runs"].value, total = 0.0;
    auto said = [&](const std::string& verdict, double number) {
        std::string counts = Json(number).write() + " runs, " + Json(tally[0]).write() + " guessed right and ";
        return test["text"].text + ": " + verdict + counts + Json(tally[1]).write() + " wrong";
    };
    for (double run = 1; run <= runs; ++run) {
        bool on_x = rng() >> 63;
        int guessed = (on_x ? 1 : -1) * guess(test, mechanism(test[on_x ? "x" : "x_prime"], rng));
        ++tally[guessed > 0 ? 0 : guessed < 0 ? 1 : 2];
        if ((std::fmod(run, 64) == 0 || run == runs) && log_wealth(test, tally) >= -std::log(test["false_alarm"].value))
            throw std::runtime_error(said("refuted after ", run));
    }
    for (int i = 0; i < 3; ++i) total += before[i] = test["learnt"].parts.at(i).value;
    for (int i = 0; i < 2; ++i) {
        double rate = (tally[i] + before[i]) / (runs + total), spread = rate * (1 - rate) * (1 / runs + 1 / total);
        if (std::abs(tally[i] / runs - before[i] / total) > 5.0 * std::sqrt(spread))
            return said("not refuted by ", runs) + "; stale: the mechanism is not what it was when this was frozen";
    }
    return said("not refuted by ", runs);
}
}  // namespace epsaudit
