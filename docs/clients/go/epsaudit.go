// epsaudit's client for Go, one file without dependencies: Serve speaks the protocol of external programs, Check runs a
// frozen test. Their specifications: docs/how-to/other-languages.md, docs/reference/frozen-tests.md.
package main // or that of your tests

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"math/rand"
	"os"
	"sort"
	"strconv"
	"strings"
)

// Mechanism takes a dataset as encoding/json reads it; outputs are float64, []float64, or what encoding/json writes.
type Mechanism func(dataset any, rng *rand.Rand) any

// written puts objects in place of floats that JSON has no word for.
func written(output any) any {
	switch y := output.(type) {
	case float64:
		if math.IsNaN(y) || math.IsInf(y, 0) || y == 0 && math.Signbit(y) { // -0 is read as a whole number
			return map[string]string{"float": strings.ToLower(strings.TrimPrefix(fmt.Sprint(y), "+"))}
		}
	case []float64:
		parts := make([]any, len(y))
		for i, one := range y {
			parts[i] = written(one)
		}
		return parts
	}
	return output
}

// number is the inverse of written; 1 for true, 0 for false, NaN for what is no number.
func number(value any) float64 {
	switch x := value.(type) {
	case float64:
		return x
	case bool:
		return map[bool]float64{true: 1}[x]
	case map[string]any:
		if found, err := strconv.ParseFloat(fmt.Sprint(x["float"]), 64); err == nil {
			return found
		}
	}
	return math.NaN()
}

// Serve answers requests until the input ends; outputs depend on the seeds alone.
func Serve(mechanism Mechanism) error {
	in, out := json.NewDecoder(bufio.NewReader(os.Stdin)), bufio.NewWriter(os.Stdout)
	fmt.Fprintln(out, `{"epsaudit": 1, "seeded": true}`)
	for out.Flush() == nil && in.More() {
		var request struct {
			Dataset    any
			Size, Seed int64
		}
		if err := in.Decode(&request); err != nil {
			return err
		}
		rng := rand.New(rand.NewSource(request.Seed)) // which takes it modulo 2^31 - 1
		for i := int64(0); i < request.Size; i++ {
			if err := json.NewEncoder(out).Encode(written(mechanism(request.Dataset, rng))); err != nil {
				return err
			}
		}
	}
	return nil
}

// Term is a function of a coordinate: a slope, or values at knots.
type Term struct {
	Coordinate                   int
	Knots, Values                []float64
	Slope, Below, Above, Missing float64
}

// Frozen is what a witness.json holds.
type Frozen struct {
	Epsaudit, Text, Combine    string
	Version, Coordinates, Runs int
	X                          any
	XPrime                     any `json:"x_prime"`
	Terms                      []Term
	GuessX                     [][]any `json:"guess_x"`
	GuessXPrime                [][]any `json:"guess_x_prime"`
	Epsilon, Delta             float64
	Bets                       [][2]float64
	FalseAlarm                 float64 `json:"false_alarm"`
	Learnt                     [3]float64
}

// Read reads a witness.json; an error is the sentence that it is no valid test.
func Read(path string) (test Frozen, err error) {
	test.Epsilon, test.Delta = math.NaN(), math.NaN() // where there are none
	text, err := os.ReadFile(path)
	known := err == nil && json.Unmarshal(text, &test) == nil && test.Epsaudit == "frozen test" && test.Version == 1
	known = known && (test.Combine == "sum" || test.Combine == "max") && test.Runs >= 1 && len(test.Bets) > 0
	known = known && test.Epsilon >= 0 && test.Delta >= 0 && test.Delta < 1 && test.FalseAlarm > 0 && test.FalseAlarm < 1
	weights, allowed := 0.0, true
	for _, bet := range test.Bets {
		allowed, weights = allowed && bet[0] > 0 && bet[0] < 1 && bet[1] >= 0, weights+bet[1]
	}
	if err == nil && !known {
		err = fmt.Errorf("%s is not a frozen test of version 1.", path)
	} else if err == nil && !(allowed && weights <= 1+1e-9) {
		err = fmt.Errorf("%s bets what no claim allows: bets lie in (0, 1), and their weights sum to 1.", path)
	}
	return test, err
}

func (t Term) value(x float64) float64 {
	i := sort.Search(len(t.Knots), func(i int) bool { return t.Knots[i] > x })
	switch {
	case len(t.Knots) == 0:
		return t.Slope * x
	case math.IsNaN(x):
		return t.Missing
	case math.IsInf(x, 0):
		return map[bool]float64{false: t.Below, true: t.Above}[x > 0]
	case i == 0:
		return t.Values[0]
	case i == len(t.Knots):
		return t.Values[i-1]
	}
	return t.Values[i-1] + (t.Values[i]-t.Values[i-1])*(x-t.Knots[i-1])/(t.Knots[i]-t.Knots[i-1])
}

// Guess returns 1 for the guess that the dataset was x, -1 for x', 0 for none.
func (test Frozen) Guess(output any) int {
	numbers, plain := output.([]float64)
	parts, several := output.([]any)
	for _, one := range parts {
		numbers = append(numbers, number(one))
	}
	if !plain && !several {
		numbers = []float64{number(output)}
	}
	if len(numbers) != test.Coordinates {
		return 0
	}
	y := 0.0
	for i, term := range test.Terms {
		one := term.value(numbers[term.Coordinate])
		if test.Combine != "max" || i == 0 {
			y += one
		} else if one > y || math.IsNaN(one) {
			y = one
		}
	}
	for i, intervals := range [][][]any{test.GuessX, test.GuessXPrime} {
		for _, part := range intervals {
			low, high := number(part[0]), number(part[1])
			if (y > low || y == low && part[2] == true) && (y < high || y == high && part[3] == true) {
				return 1 - 2*i
			}
		}
	}
	return 0
}

// LogWealth is the logarithm of the wealth after so many correct guesses, wrong ones, and runs without a guess.
func (test Frozen) LogWealth(tally [3]float64) float64 {
	leak, wealth := test.Delta/2, 0.0
	if len(test.GuessX) > 0 && len(test.GuessXPrime) > 0 {
		leak = test.Delta
	}
	for _, bet := range test.Bets {
		stake := bet[0] / (math.Exp(test.Epsilon) + leak)
		grown := tally[0]*math.Log1p(stake*(1-leak)) + tally[1]*math.Log1p(-bet[0]) + tally[2]*math.Log1p(-stake*leak)
		wealth += bet[1] * math.Exp(math.Min(grown, 600))
	}
	return math.Log(wealth)
}

// Check counts at most as many runs as the test says, and bets; an error is the sentence that refutes the claim.
func (test Frozen) Check(seed int64, mechanism Mechanism) (string, error) {
	rng, tally, runs := rand.New(rand.NewSource(seed)), [3]float64{}, float64(test.Runs)
	said := "%s: %s %d runs, %v guessed right and %v wrong%s"
	for run := 1; run <= test.Runs; run++ {
		coin := rng.Intn(2) // 0 for x
		guess := test.Guess(mechanism([]any{test.X, test.XPrime}[coin], rng))
		tally[[3]int{1, 2, 0}[1+(1-2*coin)*guess]]++
		if (run%64 == 0 || run == test.Runs) && test.LogWealth(tally) >= -math.Log(test.FalseAlarm) {
			return "", fmt.Errorf(said, test.Text, "refuted after", run, tally[0], tally[1], "")
		}
	}
	m, stale := test.Learnt[0]+test.Learnt[1]+test.Learnt[2], ""
	for i, before := range test.Learnt[:2] {
		rate := (tally[i] + before) / (runs + m)
		if math.Abs(tally[i]/runs-before/m) > 5*math.Sqrt(rate*(1-rate)*(1/runs+1/m)) {
			stale = "; stale: the mechanism is not what it was when this was frozen"
		}
	}
	return fmt.Sprintf(said, test.Text, "not refuted by", test.Runs, tally[0], tally[1], stale), nil
}
