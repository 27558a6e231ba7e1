// The client of epsaudit for Java 17, a single file without dependencies. `serve` implements the protocol of external
// programs, which docs/how-to/other-languages.md specifies. `check` runs a frozen test, whose format is specified in
// docs/reference/frozen-tests.md.

import java.io.*;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.util.*;
import java.util.function.BiFunction;
import java.util.stream.Collectors;

/** The client of epsaudit. Datasets and outputs are JSON values: null, Boolean, Number, String, List or Map. */
public final class Epsaudit {
    private final String text;
    private int at;
    private Epsaudit(String text) { this.text = text; }
    public static Object parse(String text) { return new Epsaudit(text).value(); }

    private char peek() {
        while (Character.isWhitespace(text.charAt(at))) at++;
        return text.charAt(at);
    }

    private Object value() {
        char first = peek();
        if (first == '"') return string();
        if (first == '[') return parts(']');
        if (first == '{') {
            List<Object> parts = parts('}');
            Map<String, Object> fields = new LinkedHashMap<>();
            for (int i = 0; i + 1 < parts.size(); i += 2) fields.put((String) parts.get(i), parts.get(i + 1));
            if (fields.size() == 1 && fields.get("float") instanceof String word) return parse(word); // not JSON
            return fields;
        }
        int start = at;
        while (at < text.length() && ",:]} \t\r\n".indexOf(text.charAt(at)) < 0) at++;
        String word = text.substring(start, at);
        if (word.equals("null")) return null;
        if (word.equals("true") || word.equals("false")) return word.equals("true");
        return Double.valueOf(word.replace("inf", "Infinity").replace("nan", "NaN"));
    }

    /** Return the entries of a list, or the names and values of an object in alternation. */
    private List<Object> parts(char end) {
        List<Object> found = new ArrayList<>();
        for (at++; peek() != end; )
            if (",:".indexOf(peek()) >= 0) at++;
            else found.add(value());
        at++;
        return found;
    }

    private String string() {
        StringBuilder found = new StringBuilder();
        for (at++; text.charAt(at) != '"'; at++) {
            char c = text.charAt(at);
            if (c == '\\') {
                c = text.charAt(++at);
                if (c == 'u') {
                    c = (char) Integer.parseInt(text.substring(at + 1, at + 5), 16);
                    at += 4;
                } else if ("btnfr".indexOf(c) >= 0) {
                    c = "\b\t\n\f\r".charAt("btnfr".indexOf(c));
                }
            }
            found.append(c);
        }
        at++;
        return found.toString();
    }

    public static String write(Object value) {
        if (value instanceof Number number) {
            double x = number.doubleValue();
            if (Double.isFinite(x)) return number.toString();
            return "{\"float\": \"" + (Double.isNaN(x) ? "nan" : x > 0 ? "inf" : "-inf") + "\"}";
        }
        if (value instanceof String word)
            return word.chars()
                    .mapToObj(c -> String.format(c < ' ' || c > '~' || c == '"' || c == '\\' ? "\\u%04x" : "%c", c))
                    .collect(Collectors.joining("", "\"", "\""));
        if (value instanceof List<?> parts)
            return parts.stream().map(Epsaudit::write).collect(Collectors.joining(", ", "[", "]"));
        if (value instanceof Map<?, ?> fields)
            return fields.entrySet().stream()
                    .map(field -> write(field.getKey()) + ": " + write(field.getValue()))
                    .collect(Collectors.joining(", ", "{", "}"));
        return String.valueOf(value);
    }

    /** Return a number as a double, 1 for true, 0 for false, and NaN for any other value. */
    public static double number(Object value) {
        if (value instanceof Boolean yes) return yes ? 1.0 : 0.0;
        return value instanceof Number number ? number.doubleValue() : Double.NaN;
    }

    /** Answer requests until the input ends. The outputs depend on the seeds of the requests only. */
    public static void serve(BiFunction<Object, SplittableRandom, Object> mechanism) throws IOException {
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.US_ASCII);
        out.print("{\"epsaudit\": 1, \"seeded\": true}\n"); // the newline flushes
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            Map<?, ?> request = (Map<?, ?>) parse(line);
            SplittableRandom rng = new SplittableRandom((long) number(request.get("seed")));
            StringBuilder answer = new StringBuilder();
            for (int i = 0; i < number(request.get("size")); i++)
                answer.append(write(mechanism.apply(request.get("dataset"), rng))).append('\n');
            out.print(answer);
        }
    }

    /** Read a file witness.json and return its object. Throw an exception with a message if it is not a valid test. */
    public static Map<?, ?> frozen(String path) throws IOException {
        Map<?, ?> test = (Map<?, ?>) parse(Files.readString(Path.of(path)));
        double delta = number(test.get("delta")), alarm = number(test.get("false_alarm")), weights = 0.0;
        boolean known = "frozen test".equals(test.get("epsaudit")) && number(test.get("version")) == 1.0
                && Arrays.asList("sum", "max").contains(test.get("combine")) && number(test.get("runs")) >= 1.0;
        if (!(known && number(test.get("epsilon")) >= 0.0 && delta >= 0.0 && delta < 1.0 && alarm > 0.0 && alarm < 1.0)
                || list(test, "bets").isEmpty())
            throw new IllegalArgumentException(path + " is not a frozen test of version 1.");
        for (Object bet : list(test, "bets")) {
            double fraction = at((List<?>) bet, 0), weight = at((List<?>) bet, 1);
            weights += fraction > 0.0 && fraction < 1.0 && weight >= 0.0 ? weight : Double.NaN;
        }
        if (weights <= 1.0 + 1e-9) return test;
        throw new IllegalArgumentException(
                path + " bets what no claim allows: bets lie in (0, 1), and their weights sum to 1.");
    }

    private static List<?> list(Map<?, ?> object, String name) {
        return object.get(name) instanceof List<?> parts ? parts : List.of();
    }

    private static double at(List<?> parts, int i) { return number(parts.get(i)); }

    private static double value(Map<?, ?> term, double x) {
        List<?> knots = list(term, "knots"), values = list(term, "values");
        if (knots.isEmpty()) return number(term.get("slope")) * x;
        if (!Double.isFinite(x)) return number(term.get(Double.isNaN(x) ? "missing" : x > 0 ? "above" : "below"));
        int i = 0;
        while (i < knots.size() && at(knots, i) <= x) i++;
        if (i == 0 || i == knots.size()) return at(values, Math.max(i - 1, 0));
        double share = (x - at(knots, i - 1)) / (at(knots, i) - at(knots, i - 1));
        return at(values, i - 1) + (at(values, i) - at(values, i - 1)) * share;
    }

    private static boolean inside(List<?> intervals, double y) {
        return intervals.stream().map(part -> (List<?>) part).anyMatch(part ->
                (y > at(part, 0) || y == at(part, 0) && (Boolean) part.get(2))
                        && (y < at(part, 1) || y == at(part, 1) && (Boolean) part.get(3)));
    }

    /** Return the guess from one output: 1 if the guess is the dataset x, -1 if it is x', and 0 for no guess. */
    public static int guess(Map<?, ?> test, Object output) {
        List<?> numbers = output instanceof List<?> parts ? parts : Collections.singletonList(output);
        if (numbers.size() != number(test.get("coordinates"))) return 0;
        boolean max = "max".equals(test.get("combine"));
        double y = max ? Double.NEGATIVE_INFINITY : 0.0;
        for (Object term : list(test, "terms")) {
            double one = value((Map<?, ?>) term, at(numbers, (int) number(((Map<?, ?>) term).get("coordinate"))));
            y = max ? Math.max(y, one) : y + one; // NaN if one of the terms is NaN
        }
        return inside(list(test, "guess_x"), y) ? 1 : inside(list(test, "guess_x_prime"), y) ? -1 : 0;
    }

    /**
     * Return the logarithm of the wealth, given the numbers of correct guesses, wrong guesses and runs without a guess.
     */
    public static double logWealth(Map<?, ?> test, double[] tally) {
        int events = (list(test, "guess_x").isEmpty() ? 0 : 1) + (list(test, "guess_x_prime").isEmpty() ? 0 : 1);
        double leak = events * number(test.get("delta")) / 2.0, wealth = 0.0;
        for (Object bet : list(test, "bets")) {
            double fraction = at((List<?>) bet, 0), stake = fraction / (Math.exp(number(test.get("epsilon"))) + leak);
            double grown = tally[0] * Math.log1p(stake * (1.0 - leak)) + tally[1] * Math.log1p(-fraction);
            wealth += at((List<?>) bet, 1) * Math.exp(Math.min(grown + tally[2] * Math.log1p(-stake * leak), 600.0));
        }
        return Math.log(wealth);
    }

    /**
     * Run the mechanism, at most the number of times that the test specifies, and bet on the guesses. Return a sentence
     * with the counts, or throw an AssertionError with this sentence if the claim is refuted.
     */
    public static String check(Map<?, ?> test, long seed, BiFunction<Object, SplittableRandom, Object> mechanism) {
        SplittableRandom rng = new SplittableRandom(seed);
        double[] tally = new double[3];
        double runs = number(test.get("runs")), total = 0.0;
        String name = test.get("text") + ": ", said = "%s %.0f runs, %.0f guessed right and %.0f wrong", stale = "";
        for (int run = 1; run <= runs; run++) {
            boolean onX = rng.nextBoolean();
            int guess = (onX ? 1 : -1) * guess(test, mechanism.apply(test.get(onX ? "x" : "x_prime"), rng));
            tally[guess > 0 ? 0 : guess < 0 ? 1 : 2]++;
            if ((run % 64 == 0 || run == runs) && logWealth(test, tally) >= -Math.log(number(test.get("false_alarm"))))
                throw new AssertionError(name + String.format(said, "refuted after", (double) run, tally[0], tally[1]));
        }
        List<?> before = list(test, "learnt");
        for (int i = 0; i < 3; i++) total += at(before, i);
        for (int i = 0; i < 2; i++) {
            double rate = (tally[i] + at(before, i)) / (runs + total);
            double spread = Math.sqrt(rate * (1 - rate) * (1 / runs + 1 / total));
            if (Math.abs(tally[i] / runs - at(before, i) / total) > 5.0 * spread)
                stale = "; stale: the mechanism is not what it was when this was frozen";
        }
        return name + String.format(said, "not refuted by", runs, tally[0], tally[1]) + stale;
    }
}
