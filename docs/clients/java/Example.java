// A correct noisy count, and a count with half of the required noise. Without arguments, the program runs the frozen
// test on both. Its exit status is 0 if the test refutes the second count only, and 1 otherwise. `java Example serve
// half` answers requests by the protocol of external programs.

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.function.BiFunction;

public final class Example {
    static BiFunction<Object, SplittableRandom, Object> count(double scale) {
        return (data, rng) ->
                ((List<?>) data).size() + scale * Math.log((1.0 - rng.nextDouble()) / (1.0 - rng.nextDouble()));
    }

    static boolean passes(Map<?, ?> test, double scale) {
        try {
            System.out.println(Epsaudit.check(test, 1, count(scale)));
            return true;
        } catch (AssertionError refuted) {
            System.out.println(refuted.getMessage());
            return false;
        }
    }

    public static void main(String[] words) throws IOException {
        double scale = words.length > 1 && words[1].equals("half") ? 0.5 : 1.0;
        switch (words.length > 0 ? words[0] : "test") {
            case "serve" -> Epsaudit.serve(count(scale));
            case "check" -> System.exit(passes(Epsaudit.frozen(words[2]), scale) ? 0 : 1);
            case "guess" -> { // print the guesses for the outputs on standard input
                Map<?, ?> test = Epsaudit.frozen(words[1]);
                List<Integer> guesses = new ArrayList<>();
                double[] tally = new double[3];
                for (String line : new String(System.in.readAllBytes()).lines().toList())
                    guesses.add(Epsaudit.guess(test, Epsaudit.parse(line)));
                for (int guess : guesses) tally[guess > 0 ? 0 : guess < 0 ? 1 : 2]++;
                System.out.println(guesses + "\n" + Epsaudit.logWealth(test, tally));
            }
            default -> {
                Map<?, ?> test = Epsaudit.frozen("../count.json");
                System.exit(passes(test, 1.0) && !passes(test, 0.5) ? 0 : 1);
            }
        }
    }
}
