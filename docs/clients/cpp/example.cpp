// A correct noisy count, and a count with half of the required noise. Without arguments, the program runs the frozen
// test on both. Its exit status is 0 if the test refutes the second count only, and 1 otherwise. `example serve half`
// answers requests by the protocol of external programs.
#include "epsaudit.hpp"

using epsaudit::Json;

epsaudit::Mechanism count(double scale) {
    return [scale](const Json& data, epsaudit::Rng& rng) {
        std::exponential_distribution<double> exponential;
        return Json(static_cast<double>(data.parts.size()) + scale * (exponential(rng) - exponential(rng)));
    };
}

bool passes(const Json& test, double scale) {
    try {
        std::cout << epsaudit::check(test, 1, count(scale)) << '\n';
        return true;
    } catch (const std::runtime_error& refuted) {
        std::cout << refuted.what() << '\n';
        return false;
    }
}

int main(int number, char** words) {
    std::string what = number > 1 ? words[1] : "test", which = number > 2 ? words[2] : "";
    if (what == "serve") return epsaudit::serve(count(which == "half" ? 0.5 : 1.0)), 0;
    if (what == "check") return passes(epsaudit::frozen(words[3]), which == "half" ? 0.5 : 1.0) ? 0 : 1;
    if (what == "guess") {  // print the guesses for the outputs on standard input
        Json test = epsaudit::frozen(which);
        std::array<double, 3> tally{};
        std::string guesses, line;
        while (std::getline(std::cin, line)) {
            int guess = epsaudit::guess(test, Json::parse(line));
            ++tally[guess > 0 ? 0 : guess < 0 ? 1 : 2];
            guesses += (guesses.empty() ? "" : ", ") + std::to_string(guess);
        }
        std::printf("[%s]\n%.15g\n", guesses.c_str(), epsaudit::log_wealth(test, tally));
        return 0;
    }
    Json test = epsaudit::frozen("../count.json");
    return passes(test, 1.0) && !passes(test, 0.5) ? 0 : 1;
}
